"""Finds black holes (DESIGN §3.7): nodes where jobs die fast, and that so would take one job after the other."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings

from matching.domain.black_holes import EarlierBlackHole, FoundBlackHole, Host, black_holes, pause_of
from matching.queries.node_failures import WITHIN, failing_hosts, tallies
from pilots.models import BlackHole
from pilots.services import exclusions
from wms.kernel.db import database_now


def find_black_holes() -> int:
    """Find hosts that have become black holes, and let those whose time is over have jobs again.

    Returns:
        How many were found.
    """
    now = database_now()
    exclusions.lift_over(now=now)
    found = _found(now=now)
    shut = [host for host, against in found.items() if _shut(host, against, now=now)]
    # Pilots have registered, or told where they are, since their hosts were found.
    exclusions.mark_pilots()
    return len(shut)


def _found(*, now: datetime) -> Mapping[Host, FoundBlackHole]:
    fast, failures = timedelta(seconds=settings.WMS_BLACK_HOLE_FAST_S), settings.WMS_BLACK_HOLE_FAILURES
    if not failures or not failing_hosts(fast=fast, failures=failures, now=now):
        return {}
    return black_holes(tallies(fast=fast, now=now), failures=failures)


def _shut(host: Host, against: FoundBlackHole, *, now: datetime) -> bool:
    minutes = WITHIN // timedelta(minutes=1)
    reason = (
        f"{against.failed} of the {against.fetched} jobs that ended here within {minutes} minutes failed, or were"
        f" handed back, within {settings.WMS_BLACK_HOLE_FAST_S} s, and {_why_the_host(against)}"
    )
    return exclusions.shut(
        BlackHole(
            site_id=host.site_id,
            host_name=host.name,
            found_at=now,
            until=now + pause_of(_earlier(host), now=now),
            fetched=against.fetched,
            failed=against.failed,
            reason=reason,
        )
    )


def _why_the_host(against: FoundBlackHole) -> str:
    if against.owners:
        return f"they are of {against.owners} users, and none like them ran elsewhere"
    return "jobs like them do well on other hosts"


def _earlier(host: Host) -> EarlierBlackHole | None:
    # Uses index: black_hole_of_host
    rows = BlackHole.objects.filter(site=host.site_id, host_name=host.name, lifted_at__isnull=False)
    last = rows.order_by("-found_at", "-pk").first()
    if last is None or last.lifted_at is None:
        return None
    return EarlierBlackHole(
        found_at=last.found_at, until=last.until, lifted_at=last.lifted_at, by_somebody=bool(last.lifted_by)
    )
