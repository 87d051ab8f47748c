"""Black holes: hosts where jobs fail fast, so that they would take one job after the other (ADR 26)."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings

from matching.domain.black_holes import EarlierBlackHole, FoundBlackHole, Host, black_holes, pause_of
from matching.queries.node_failures import WITHIN, failing_hosts, tallies
from pilots.models import BlackHole
from pilots.services import exclusions
from wms.kernel.db import database_now


def find_black_holes() -> int:
    """Exclude hosts that have become black holes, and readmit those whose exclusion is over.

    Returns:
        The number of new black holes.
    """
    now = database_now()
    exclusions.lift_over(now=now)
    holes = _current_black_holes(now=now)
    shut = [host for host, evidence in holes.items() if _shut(host, evidence, now=now)]
    # Pilots may have registered, or reported their host, since their hosts were excluded.
    exclusions.mark_pilots()
    return len(shut)


def _current_black_holes(*, now: datetime) -> Mapping[Host, FoundBlackHole]:
    fast, failures = timedelta(seconds=settings.WMS_BLACK_HOLE_FAST_S), settings.WMS_BLACK_HOLE_FAILURES
    if not failures or not failing_hosts(fast=fast, failures=failures, now=now):
        return {}
    return black_holes(tallies(fast=fast, now=now), failures=failures)


def _shut(host: Host, evidence: FoundBlackHole, *, now: datetime) -> bool:
    minutes = WITHIN // timedelta(minutes=1)
    reason = (
        f"{evidence.failed} of the {evidence.fetched} jobs that ended here within {minutes} minutes failed, or were"
        f" handed back, within {settings.WMS_BLACK_HOLE_FAST_S} s, and {_why_the_host(evidence)}"
    )
    return exclusions.shut(
        BlackHole(
            site_id=host.site_id,
            host_name=host.name,
            found_at=now,
            until=now + pause_of(_earlier(host), now=now),
            fetched=evidence.fetched,
            failed=evidence.failed,
            reason=reason,
        )
    )


def _why_the_host(evidence: FoundBlackHole) -> str:
    if evidence.owners:
        return f"they are of {evidence.owners} users, and none like them ran elsewhere"
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
