"""Counts of how recent jobs ended, by host."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from matching.domain.black_holes import Host, HostTally, JobKind
from matching.models import Match
from pilots.models import BlackHole
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import JobHistory

#: Age up to which a lease is evidence about its host.
WITHIN = timedelta(hours=1)
_PLACE = "queue__ce__site"
_HOST = "pilot__host_name"


def failing_hosts(*, fast: timedelta, failures: int, now: datetime) -> bool:
    """Return whether there may be a black hole: a host with many short leases.

    Usually there is none, and no other query is needed.
    """
    # Uses index: match_ended
    short = _ended_lately(now=now).filter(_short(fast)).values(_PLACE, _HOST).annotate(leases=Count("pk"))
    many: bool = short.filter(leases__gte=failures).exists()
    return many


def tallies(*, fast: timedelta, now: datetime) -> Sequence[HostTally]:
    """Return how the leases of the last hour ended, for every host that gets jobs.

    Leases that ended before an exclusion of their host was lifted do not count.

    Args:
        fast: a lease that ended badly within this time after its match has failed fast.
        now: by the database's clock.
    """
    barred = BlackHole.objects.filter(
        Q(lifted_at=None) | Q(lifted_at__gte=OuterRef("leased_at")),
        site=OuterRef(_PLACE),
        host_name=OuterRef(_HOST),
    )
    # Written in the transaction that ended the lease, with the same timestamp.
    bad = JobHistory.objects.filter(
        job=OuterRef("job"), changed_at=OuterRef("ended_at"), status__in=[JobStatus.FAILED, JobStatus.RESCHEDULED]
    )
    # Uses indexes: match_ended, jobs_jobhistory_pkey
    counts = (
        _ended_lately(now=now)
        .filter(~Exists(barred))
        .values_list(_PLACE, _HOST, "job__owner", "job__job_type", "cpu_segment_s")
        .annotate(
            fetched=Count("pk"),
            # A pilot that is drained, or ends with its node, returns its jobs; that is no failure.
            failed=Count("pk", filter=_short(fast) & Q(pilot__drained_at=None) & Q(Exists(bad))),
        )
        .order_by()
    )
    return [
        HostTally(host=Host(site_id, name), kind=JobKind(*kind), fetched=fetched, failed=failed)
        for site_id, name, *kind, fetched, failed in counts
    ]


def _ended_lately(*, now: datetime) -> QuerySet[Match]:
    # Killed jobs were ended by people, and pilots made by hand have no known site. A node that lacks what one job
    # requires may suit other jobs.
    lately = Match.objects.filter(ended_at__gt=now - WITHIN, job_at_fault=False).exclude(end_reason="killed")
    return lately.filter(queue__isnull=False).exclude(pilot__host_name="")


def _short(fast: timedelta) -> Q:
    return Q(ended_at__lt=F("leased_at") + fast)
