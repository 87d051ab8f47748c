"""Changes of resources: their state, and the tokens and credentials that belong to them."""

import logging
from datetime import datetime
from secrets import token_urlsafe

from resources.domain.words import ResourceState, SiteTokenPurpose
from resources.models import ComputingElement, Queue, Site, SiteToken
from wms.accounts.domain import digest_of
from wms.accounts.models import User
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, RejectedError

logger = logging.getLogger(__name__)

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
    logger.info(
        "resource.state_set",
        extra={"level": type(level).__name__, "id": level.pk, "state": state, "by": by and by.pk},
    )


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
    token = f"{SITE_TOKEN_PREFIX}{token_urlsafe(32)}"
    SiteToken.objects.create(site=site, purpose=purpose, digest=digest_of(token), created_at=now)
    logger.info("site.token_issued", extra={"site": site.pk, "purpose": purpose})
    return token


def revoke_site_token(*, token_id: int, now: datetime) -> None:
    """Make the token open nothing from now on; a token already revoked stays as it is."""
    if SiteToken.objects.filter(pk=token_id, revoked_at__isnull=True).update(revoked_at=now):
        logger.info("site.token_revoked", extra={"token_id": token_id})


@transaction_required
def set_site_token(site: Site, *, purpose: SiteTokenPurpose, plain: str, now: datetime) -> None:
    """Make *plain* the token of *site* that the configuration file names, in place of the one it named before.

    Tokens that were issued here stay as they are.

    Raises:
        TokenTakenError: it is a token of another site, or for another purpose.
    """
    wanted = digest_of(plain)
    configured = SiteToken.objects.filter(site=site, purpose=purpose, configured=True)
    configured.exclude(digest=wanted).delete()
    token, _ = SiteToken.objects.get_or_create(
        digest=wanted, defaults={"site": site, "purpose": purpose, "configured": True, "created_at": now}
    )
    if token.site_id != site.pk or token.purpose != purpose or token.revoked_at is not None:
        raise TokenTakenError("This token is in use elsewhere, or was revoked; choose another one.")
