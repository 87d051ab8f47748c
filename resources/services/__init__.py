"""Changes of resources: their state, and the tokens and credentials that belong to them."""

from datetime import datetime, timedelta
from secrets import token_urlsafe

from django.conf import settings
from django.db import transaction
from django.db.models import F

from resources.domain.words import ResourceState, SiteTokenPurpose
from resources.models import ComputingElement, Queue, Site, SiteToken
from wms.accounts.domain import SecurityEventKind, digest_of
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, RejectedError

#: Of tokens that are made here; one that a configuration file sets may have any spelling.
SITE_TOKEN_PREFIX = "wmss_"  # noqa: S105 - not a secret
MAX_REASON_LENGTH = 255


class StateError(RejectedError):
    """A resource cannot be put into this state with these words."""

    code = "bad_state"


class TokenTakenError(ConflictError):
    """The token opens something else."""

    code = "token_taken"


def set_state(
    level: Site | ComputingElement | Queue,
    *,
    state: ResourceState,
    reason: str,
    until: datetime | None,
    by: User | None,
    now: datetime,
) -> None:
    """Put a site, a computing element or a queue into *state*; *level* carries it afterwards.

    Args:
        level: what is changed; what is below it follows by itself, for a queue needs all three levels active.
        state: the new one.
        reason: shown to physicists; required unless the new state is active.
        until: from then on it is active again; None: until somebody changes it.
        by: whoever decided; None: the configuration file.
        now: the edge's clock.

    Raises:
        StateError: no reason, too long a reason, or an end that is past or that nothing has to end.
    """
    reason = reason.strip()
    _check_state(state=state, reason=reason, until=until, now=now)
    level.state, level.state_reason, level.state_until = state, reason, until
    level.state_changed_by, level.state_changed_at = by, now
    level.save(update_fields=["state", "state_reason", "state_until", "state_changed_by", "state_changed_at"])
    record(
        SecurityEventKind.RESOURCE_STATE_CHANGED,
        actor=by,
        target=full_name(level),
        state=state,
        reason=reason,
        until=until,
    )


def full_name(level: Site | ComputingElement | Queue) -> str:
    """Return which level it is, such as "computing element ce1 at site LCG.CERN.ch"."""
    match level:
        case Site():
            return f"site {level.name}"
        case ComputingElement():
            return f"computing element {level.name} at {full_name(level.site)}"
        case Queue():
            return f"queue {level.name} of {full_name(level.ce)}"


def _check_state(*, state: ResourceState, reason: str, until: datetime | None, now: datetime) -> None:
    problems = {}
    if state is not ResourceState.ACTIVE and not reason:
        problems["reason"] = f"say why it is {state}; physicists see it."
    if len(reason) > MAX_REASON_LENGTH:
        problems["reason"] = f"use at most {MAX_REASON_LENGTH} characters."
    if until is not None and state is ResourceState.ACTIVE:
        problems["until"] = "what is active has no end; leave it out."
    elif until is not None and until <= now:
        problems["until"] = "this is past; name a time to come, or leave it out."
    if problems:
        field, sentence = next(iter(problems.items()))
        raise StateError(f"{field}: {sentence}", errors={field: [text] for field, text in problems.items()})


def issue_site_token(site: Site, *, purpose: SiteTokenPurpose, now: datetime) -> str:
    """Return a new token of *site*; it is shown this once, for only its digest is kept.

    Tokens that the site had before stay valid, so that they can be exchanged in peace.
    """
    plain = f"{SITE_TOKEN_PREFIX}{token_urlsafe(32)}"
    expires_at = _expiry(purpose, now=now)
    with transaction.atomic():
        token = SiteToken.objects.create(
            site=site, purpose=purpose, digest=digest_of(plain), created_at=now, expires_at=expires_at
        )
        _record_token(SecurityEventKind.TOKEN_ISSUED, token)
    return plain


def _expiry(purpose: SiteTokenPurpose, *, now: datetime) -> datetime | None:
    """Return when a new token expires; one for reports of load does not."""
    if purpose != SiteTokenPurpose.REGISTER:
        return None
    return now + timedelta(seconds=settings.WMS_REGISTRATION_TOKEN_S)


@transaction_required
def count_registration(*, token_id: int, now: datetime) -> None:
    """Count one more pilot that was registered with a site's token."""
    SiteToken.objects.filter(pk=token_id).update(registrations=F("registrations") + 1, registered_at=now)


def revoke_site_token(*, token_id: int, now: datetime) -> None:
    """Make the token open nothing from now on; a token already revoked stays as it is."""
    with transaction.atomic():
        token = SiteToken.objects.select_for_update(of=("self",)).select_related("site").filter(pk=token_id).first()
        if token is None or token.revoked_at is not None:
            return
        SiteToken.objects.filter(pk=token_id).update(revoked_at=now)
        _record_token(SecurityEventKind.TOKEN_REVOKED, token)


def _record_token(kind: SecurityEventKind, token: SiteToken) -> None:
    record(kind, target=full_name(token.site), token_id=token.pk, purpose=token.purpose)


@transaction_required
def set_site_token(site: Site, *, purpose: SiteTokenPurpose, plain: str, now: datetime) -> None:
    """Make *plain* the token of *site* that the configuration file names, in place of the one it named before.

    Tokens that were issued here stay as they are. This one does not expire: the file says how long it is valid.

    Raises:
        TokenTakenError: it is a token of another site, or for another purpose.
    """
    wanted = digest_of(plain)
    configured = SiteToken.objects.filter(site=site, purpose=purpose, configured=True)
    for replaced in configured.exclude(digest=wanted).select_related("site"):
        _record_token(SecurityEventKind.TOKEN_REVOKED, replaced)
        replaced.delete()
    token, is_new = SiteToken.objects.get_or_create(
        digest=wanted, defaults={"site": site, "purpose": purpose, "configured": True, "created_at": now}
    )
    if token.site_id != site.pk or token.purpose != purpose or not token.is_valid(now=now):
        raise TokenTakenError("This token is in use elsewhere, or was revoked; choose another one.")
    if is_new:
        _record_token(SecurityEventKind.TOKEN_ISSUED, token)
