"""Attempts that failed at one site, for its administrators and managers: where and when, not whose (ADR 109)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from matching.models import Match
from pilots.models import Pilot
from resources.models import Site
from resources.queries.rights import may_change
from wms.accounts.models import User
from wms.accounts.queries import managed_vos_of
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import JobHistory, OutputTail

#: Age up to which failures are listed.
WITHIN: Final = timedelta(days=1)
#: Pilots of the site whose leases are read: the newest.
MOST_PILOTS: Final = 2000
#: {status of the job before its attempt ended: phase of the attempt}.
PHASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        JobStatus.MATCHED: "preparation",
        JobStatus.RUNNING: "payload",
        JobStatus.COMPLETING: "output",
        JobStatus.STALLED: "silence",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFailures:
    """The attempts that ended on one host within WITHIN, and how many of them failed."""

    host: str
    failed: int
    ended: int


def failures_at(site: Site, *, user: User, now: datetime) -> QuerySet[Match]:
    """Return the leases of failed attempts, of jobs that *user* may hear of; none of a killed job.

    Each has the annotations ``status_before``, whose phase is in PHASES, ``exit_code``, and ``reason``, ``std_error``
    and ``std_output``, which are empty unless the job's VO lets sites see them, or the user manages it.
    """
    vos = managed_vos_of(user)
    shown = Q(job__vo__outputs_for_sites=True) if vos is not None else Q(pk__isnull=False)
    if vos:
        shown |= Q(job__vo__in=vos)
    history = JobHistory.objects.filter(job=OuterRef("job"))
    before = history.filter(changed_at__gte=OuterRef("leased_at"), changed_at__lt=OuterRef("ended_at"))
    is_last = Q(job__ended_at=F("ended_at"))
    # Uses index: the primary key.
    tail = OutputTail.objects.filter(job=OuterRef("job"), attempt=OuterRef("job__reschedules"))
    return (
        _ended_at(site, user=user, now=now)
        .filter(_FAILED)
        .select_related("pilot")
        .only("leased_at", "ended_at", "end_reason", "pilot__host_name")
        .annotate(
            status_before=Coalesce(Subquery(before.order_by("-id").values("status")[:1]), Value("")),
            exit_code=Case(When(is_last, then=F("job__exit_code"))),
            reason=Case(When(shown, then=Subquery(_bad_end().values("minor_status")[:1])), default=Value("")),
            std_error=Case(When(shown & is_last, then=Subquery(tail.values("std_error")[:1]))),
            std_output=Case(When(shown & is_last, then=Subquery(tail.values("std_output")[:1]))),
        )
        .order_by("-ended_at", "-pk")
    )


def hosts_at(site: Site, *, user: User, now: datetime) -> Sequence[HostFailures]:
    """Return the hosts of the site on which attempts ended, those with most failures first; the jobs are as above."""
    rows = (
        _ended_at(site, user=user, now=now)
        .values_list("pilot__host_name")
        .annotate(failed=Count("pk", filter=_FAILED), ended=Count("pk"))
        .order_by("-failed", "pilot__host_name")
    )
    return [HostFailures(host=host, failed=failed, ended=ended) for host, failed, ended in rows]


def _ended_at(site: Site, *, user: User, now: datetime) -> QuerySet[Match]:
    # Uses index: pilot_latest_at_queue
    pilots = Pilot.objects.filter(queue__ce__site=site).order_by("-pk").values_list("pk", flat=True)[:MOST_PILOTS]
    # Uses index: a_request_of_a_pilot_gets_its_leases_once, by its first column
    ended = Match.objects.filter(pilot__in=list(pilots), ended_at__gt=now - WITHIN).exclude(end_reason="killed")
    return ended if may_change(site, user) else ended.filter(job__vo__in=managed_vos_of(user) or ())


def _bad_end() -> QuerySet[JobHistory]:
    # Written in the transaction that ended the lease, with the same timestamp.
    return JobHistory.objects.filter(
        job=OuterRef("job"), changed_at=OuterRef("ended_at"), status__in=[JobStatus.FAILED, JobStatus.RESCHEDULED]
    )


#: A pilot that is drained returns its jobs; that is no failure.
_FAILED: Final = Q(Exists(_bad_end().filter(status=JobStatus.FAILED))) | (
    Q(pilot__drained_at=None) & Q(Exists(_bad_end()))
)
