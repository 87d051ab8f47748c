"""Usage accounting: the usage of leases, summed by interval and by group (docs/architecture.md, Priorities; ADR 13)."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min

from matching.models import Match
from matching.queries.shares import delivered_by_leases
from taskqueues.domain.usage import INTERVAL, KEPT, interval_of
from taskqueues.services import usage
from wms.kernel.db import database_now

#: Age from which usage is counted. What a later transaction commits would never be counted, so no transaction that
#: makes or ends a lease may last longer.
LAG = timedelta(seconds=60)
#: Intervals counted in one run, three hours; the next run counts the rest of a longer outage. With 100,000 open leases
#: each takes a sixth of a second, and other background work waits for it.
AT_ONCE = 36


def count_deliveries() -> int:
    """Count the usage since the last run; return the number of steps, one for each interval.

    Each step is one transaction that also stores the time up to which it counted: after a crash the next run continues
    there. Concurrent runs follow one another.
    """
    until = database_now() - LAG
    for step in range(AT_ONCE):
        if not _count_rest_of_interval(until=until):
            return step
    return AT_ONCE


def _count_rest_of_interval(*, until: datetime) -> bool:
    with transaction.atomic(durable=True):
        since = usage.lock_count()
        if since is None:
            usage.begin_count(at=_beginning(until))
            since = usage.lock_count() or until
        if since >= until:
            return False
        until = min(interval_of(since) + INTERVAL, until)
        usage.record(delivered_by_leases(since=since, until=until), since=since, until=until)
        return True


def _beginning(until: datetime) -> datetime:
    first = Match.objects.aggregate(first=Min("leased_at"))["first"]
    return until if first is None else max(min(first, until), until - KEPT)
