"""Administrators of sites, as operators make and end them (ADR 109)."""

from datetime import datetime

from resources.models import Site, SiteAdministrator
from resources.services.states import full_name
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required


@transaction_required
def make_administrator(site: Site, user: User, *, by: User | None, now: datetime) -> None:
    """Make *user* an administrator of *site*; one who is already stays as is.

    Args:
        site: the site.
        user: the user, of whatever VO, or of none.
        by: the acting operator; None: nobody who is known.
        now: the time of the change.
    """
    _, is_new = SiteAdministrator.objects.get_or_create(site=site, user=user, defaults={"made_by": by, "made_at": now})
    if is_new:
        record_administrator(site, f"+{user}", by=by)


@transaction_required
def end_administrator(site: Site, user: User, *, by: User | None) -> None:
    """End the role of *user* at *site*; arguments as of ``make_administrator``."""
    if SiteAdministrator.objects.filter(site=site, user=user).delete()[0]:
        record_administrator(site, f"-{user}", by=by)


def record_administrator(site: Site, what: str, *, by: User | None) -> None:
    """Write to the history of a site the user name after "+" (administers it now) or "-" (no longer)."""
    kind, changes = SecurityEventKind.RIGHTS_CHANGED, {"administrators": [what]}
    record(kind, actor=by, target=full_name(site), row=site, what="changed", changes=changes)
