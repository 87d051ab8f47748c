"""What groups got, counted lease by lease into intervals and into the use that shares follow (DESIGN §3.3, ADR 13)."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min

from matching.models import Match
from matching.queries.usage import delivered_by_leases
from taskqueues.domain.usage import INTERVAL, KEPT, interval_of
from taskqueues.services import usage
from wms.kernel.db import database_now

#: What is younger is left for the next time, or what commits late would never be counted: no transaction that makes or
#: ends a lease may last so long (DESIGN §4.6).
LAG = timedelta(seconds=60)
#: Intervals counted in one run, three hours of them; the next run takes the rest of a longer outage. With 100,000 open
#: leases each takes a sixth of a second, and other work waits behind it.
AT_ONCE = 36


def count_deliveries() -> int:
    """Count what was delivered since the last time; return how many steps that took, one for each interval.

    Each step is one transaction that also writes how far it came: after a crash the next run goes on there. Two at
    once follow one another.
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
