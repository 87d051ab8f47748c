"""Tokens of sites: issued here or set by the configuration file, revoked, and counted at registrations of pilots."""

from datetime import datetime, timedelta
from secrets import token_urlsafe

from django.conf import settings
from django.db import transaction
from django.db.models import F

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site, SiteToken
from resources.services.setups import refuse_unknown_setup, vos_of
from resources.services.states import full_name
from wms.accounts.domain import SecurityEventKind, digest_of
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, RejectedError
from wms.kernel.time_texts import to_the_second

#: Prefix of tokens issued here; one set by the configuration file may be any text.
SITE_TOKEN_PREFIX = "wmss_"  # noqa: S105 - not a secret


class TokenTakenError(ConflictError):
    """The token is in use for something else."""

    code = "token_taken"


class TokenEndError(RejectedError):
    """The end of a new token is past, or later than it may be."""

    code = "bad_token_end"


def issue_site_token(
    site: Site, *, purpose: SiteTokenPurpose, now: datetime, setup: str = "", expires_at: datetime | None = None
) -> str:
    """Return a new token of *site*; only its digest is stored, so it cannot be shown again.

    Earlier tokens of the site stay valid until they have been replaced everywhere.

    Args:
        site: the site.
        purpose: what it is for.
        now: the time of the request.
        setup: of the pilots that register with it and choose none; empty: it chooses none either.
        expires_at: its end; None: the latest that its purpose allows.

    Raises:
        UnknownSetupError: no VO of the site has the setup.
        TokenEndError: the end is past, or later than tokens of the purpose are valid.
    """
    refuse_unknown_setup(setup, vos=vos_of(site) if setup else ())
    plain = f"{SITE_TOKEN_PREFIX}{token_urlsafe(32)}"
    latest = _expiry(purpose, now=now)
    _refuse_end(expires_at, latest=latest, now=now)
    expires_at = expires_at or latest
    with transaction.atomic():
        token = SiteToken.objects.create(
            site=site,
            purpose=purpose,
            digest=digest_of(plain),
            created_at=now,
            expires_at=expires_at,
            setup=setup,
            vo_ids=_vo_ids(site),
        )
        _record_token(SecurityEventKind.TOKEN_ISSUED, token)
    return plain


def _vo_ids(site: Site) -> list[int] | None:
    """Return the VOs for which a token of *site* that is made now is valid; None: all."""
    return [vo.pk for vo in site.vos.all()] or None


def _expiry(purpose: SiteTokenPurpose, *, now: datetime) -> datetime | None:
    """Return when a new token expires; None: tokens for advertisements do not expire."""
    if purpose != SiteTokenPurpose.REGISTER:
        return None
    return now + timedelta(seconds=settings.WMS_REGISTRATION_TOKEN_S)


def _refuse_end(expires_at: datetime | None, *, latest: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise TokenEndError("This end is past; give a future time.")
    if expires_at is not None and latest is not None and expires_at > latest:
        raise TokenEndError(
            f"Such a token ends at {to_the_second(latest)} at the latest; give an earlier end, or none."
        )


@transaction_required
def count_registration(*, token_id: int, now: datetime) -> None:
    """Count a pilot that was registered with a site's token."""
    SiteToken.objects.filter(pk=token_id).update(registrations=F("registrations") + 1, registered_at=now)


def revoke_site_token(*, token_id: int, now: datetime) -> None:
    """Revoke the token; a token already revoked does not change."""
    with transaction.atomic():
        token = SiteToken.objects.select_for_update(of=("self",)).select_related("site").filter(pk=token_id).first()
        if token is None or token.revoked_at is not None:
            return
        SiteToken.objects.filter(pk=token_id).update(revoked_at=now)
        _record_token(SecurityEventKind.TOKEN_REVOKED, token)


def _record_token(kind: SecurityEventKind, token: SiteToken) -> None:
    record(kind, target=full_name(token.site), row=token.site, token_id=token.pk, purpose=token.purpose)


@transaction_required
def set_site_token(site: Site, *, purpose: SiteTokenPurpose, plain: str, now: datetime, setup: str = "") -> None:
    """Make *plain* the token of *site* from the configuration file, in place of its previous one.

    *setup* is as of ``issue_site_token``. Tokens issued here do not change. This one does not expire: it is valid while
    the file contains it.

    Raises:
        TokenTakenError: it is a token of another site, or for another purpose, or was revoked.
    """
    digest = digest_of(plain)
    # Uses index: site_token_of_site
    configured = SiteToken.objects.filter(site=site, purpose=purpose, configured=True)
    for replaced in configured.exclude(digest=digest).select_related("site"):
        _record_token(SecurityEventKind.TOKEN_REVOKED, replaced)
        replaced.delete()
    token, is_new = SiteToken.objects.get_or_create(
        digest=digest,
        defaults={
            "site": site,
            "purpose": purpose,
            "configured": True,
            "created_at": now,
            "setup": setup,
            "vo_ids": _vo_ids(site),
        },
    )
    if token.site_id != site.pk or token.purpose != purpose or not token.is_valid(now=now):
        raise TokenTakenError("This token is in use elsewhere, or was revoked; choose another one.")
    if token.setup != setup:
        token.setup = setup
        token.save(update_fields=["setup"])
    if is_new:
        _record_token(SecurityEventKind.TOKEN_ISSUED, token)
