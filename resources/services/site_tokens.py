"""Tokens of sites: issued, named by the configuration file, revoked, and counted as pilots register with them."""

from datetime import datetime, timedelta
from secrets import token_urlsafe

from django.conf import settings
from django.db import transaction
from django.db.models import F

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site, SiteToken

#: Of tokens that are made here; one that a configuration file sets may have any spelling.
from resources.services.states import full_name
from wms.accounts.domain import SecurityEventKind, digest_of
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError

SITE_TOKEN_PREFIX = "wmss_"  # noqa: S105 - not a secret


class TokenTakenError(ConflictError):
    """The token opens something else."""

    code = "token_taken"


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
