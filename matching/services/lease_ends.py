"""Ends of leases: their reasons, and the place to which the job goes (docs/architecture.md, Leases)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db import connection
from django.db.models import F

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.queries import others_alive
from taskqueues.services.avoided_places import GivenBack
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import rescheduling
from wms.kernel.db import transaction_required
from wms.kernel.life import LifeEvent, tell
from wms.kernel.memo import CachedLookups, Memo
from wms.wire.protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE, RESCHEDULE_EXIT_CODE

#: Exit codes of jobs that did not run because their node lacks what they require. A job with another code has run.
_NOT_RUN: Final = frozenset({None, RESCHEDULE_EXIT_CODE, NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE})
#: In ``sql/reports.sql``; no job of such a lease is at fault.
_END: Final = """
    SELECT count(wms_end_lease(its.id, its.reason, false, its.died, %s))
      FROM unnest(%s::uuid[], %s::text[], %s::boolean[]) AS its (id, reason, died)
"""


class EndReason(StrEnum):
    """The reason for which a lease ended."""

    FINISHED = "finished"
    KILLED = "killed"
    EXPIRED = "expired"
    PILOT_ENDED = "pilot_ended"


@transaction_required
def put_back(match: Match, *, minor: str | None, memo: Memo) -> JobStatus:
    """Return the job of a lease that its pilot has ended to its task queue, or fail it after too many returns.

    A job that its owner rescheduled during the lease waits again.

    Args:
        match: the lease, ended in this transaction.
        minor: why the pilot gave the job back; None: the payload requested it.
        memo: cache of the index for lookups of the configuration.

    Returns:
        The new status of the job.
    """
    source, job = f"pilot {match.pilot_id}", match.job
    # NB: of the job's history as well: black holes are found by it.
    now = match.ended_at
    if now is None:
        raise ValueError("the lease has not ended")
    if job.status in LEASED:
        rescheduling.reschedule_or_fail(
            {job.pk: minor or "The payload requested rescheduling"},
            source=source,
            now=now,
            given_back=_given_back_by({match: True}, memo=memo),
            deaths=_deaths_during([job.pk]),
        )
    else:
        rescheduling.requeue([job.pk], source=source, now=now)
    return JobStatus(Job.objects.values_list("status", flat=True).get(pk=job.pk))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedEnd:
    """The end of a lease whose pilot will not finish it.

    Args:
        match: open, and locked after its job.
        reason: why the lease ends.
        minor: the same for the job's owner.
        died: whether the pilot died, as far as is known, and was not ended by its batch system or by the server.
    """

    match: Match
    reason: EndReason
    minor: str
    died: bool


@transaction_required
def end_unfinished(ends: Sequence[UnfinishedEnd], *, source: str, now: datetime, memo: Memo) -> None:
    """End leases; each job returns to its task queue, or fails after too many returns.

    Args:
        ends: of different jobs.
        source: who ends them, for the histories of the jobs.
        now: by the database's clock.
        memo: cache of the index for lookups of the configuration.
    """
    ids, reasons, died = zip(*((each.match.pk, each.reason, each.died) for each in ends), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_END, [now, list(ids), list(reasons), list(died)])
    for each in ends:
        match = each.match
        tell(LifeEvent.JOB_LOST, job=match.job_id, pilot=match.pilot_id, lease=match.pk, reason=each.minor)
    # A silent pilot had the job for the whole of its lease: no further delay is needed.
    delayed = {
        each.match: each.reason is not EndReason.EXPIRED and each.match.pilot.status != PilotStatus.LOST
        for each in ends
    }
    rescheduling.reschedule_or_fail(
        {each.match.job_id: each.minor for each in ends},
        source=source,
        now=now,
        given_back=_given_back_by(delayed, memo=memo),
        deaths=_deaths_during([each.match.job_id for each in ends]),
    )


def _deaths_during(job_ids: Collection[int]) -> dict[int, int]:
    # Uses index: the one of the foreign key to the job.
    died = Match.objects.filter(job__in=job_ids, died=True)
    # A pilot that reported after the lease had expired in silence was cut off, and did not die.
    died = died.exclude(end_reason=EndReason.EXPIRED, pilot__last_seen_at__gt=F("ended_at"))
    return dict(Counter(died.values_list("job_id", flat=True)))


def _given_back_by(delayed: Mapping[Match, bool], *, memo: Memo) -> dict[int, GivenBack]:
    """Return {job: the places that have given it back so far, that of its lease last}.

    Jobs are left out whose pilot was drained and gave back what it had: this says nothing about the place or the job.

    Args:
        delayed: {ended lease, of different jobs: whether the job waits before its next match}.
        memo: cache of the index for lookups of the configuration.
    """
    lookups = CachedLookups({})
    matches = [match for match in delayed if match.pilot.drained_at is None]
    tried = _queues_tried_before(matches)
    return {
        match.job_id: GivenBack(
            queue_ids=(*(pk for pk in tried[match.job_id] if pk != match.queue_id), match.queue_id),
            host=host,
            other_hosts=bool(host) and others_alive(queue_id=match.queue_id, but=host, lookups=lookups),
            delayed=delayed[match],
            memo=memo,
        )
        if match.queue_id is not None
        else GivenBack(delayed=delayed[match], memo=memo)
        for match in matches
        for host in [match.pilot.host_name]
    }


def _queues_tried_before(matches: Iterable[Match]) -> Mapping[int, Iterable[int]]:
    """Return {job: queues of the leases before that of *matches*, each once, in their order}."""
    until = {match.job_id: match.leased_at for match in matches if match.queue_id is not None}
    # Uses index: the one of the foreign key to the job.
    leases = Match.objects.filter(job__in=until.keys(), queue__isnull=False).order_by("leased_at", "pk")
    tried: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for job_id, queue_id, leased_at in leases.values_list("job_id", "queue_id", "leased_at"):
        if leased_at < until[job_id]:
            tried[job_id][queue_id] = None
    return tried


def result_of(exit_code: int | None, minor: str | None) -> tuple[JobStatus, str]:
    """Return the status of a job whose payload ended, and its minor status."""
    if exit_code == 0:
        return JobStatus.DONE, minor or "Execution complete"
    return JobStatus.FAILED, minor or ("No exit code" if exit_code is None else f"Exited with code {exit_code}")


def is_at_fault(*, job_at_fault: bool, exit_code: int | None) -> bool:
    """Return whether the job, not its node, caused the end: a payload that ran counts for its node in any case."""
    return job_at_fault and exit_code in _NOT_RUN
