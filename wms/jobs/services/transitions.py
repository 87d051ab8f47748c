"""Transitions of jobs, all but those that pilots report (``matching/sql``); docs/architecture.md, Jobs.

Every function is a step for a set of jobs: for each ``AT_ONCE`` jobs one statement, which locks them by primary key,
updates them and writes their history. Lock order: jobs are withdrawn from task queues (QueuedJob) before
these steps and enqueued after them, as the last locking step of the transaction; no transaction may wait for a Job
while it holds a task queue that it has just created.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypedDict

from django.db.models import F
from django.db.models.functions import Coalesce

from wms.jobs.domain.lifecycle import FINAL, JobStatus, sources_of
from wms.jobs.models import Job, JobHistory, JobQuerySet, Submission
from wms.jobs.sql import changes
from wms.jobs.sql.arrivals import Arriving, NewJob, insert_new_jobs
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, WmsError
from wms.kernel.life import LifeEvent, tell

#: Jobs of one statement, which stays below a megabyte of text and some tens of milliseconds.
AT_ONCE: Final = 5000


#: Statuses that are reached because somebody asks for it.
_ASKED_FOR: Final = frozenset({JobStatus.KILLED, JobStatus.HELD, JobStatus.RESCHEDULED, JobStatus.DELETED})


class IllegalTransitionError(ConflictError):
    """The requested status cannot be reached from the job's status."""

    code = "illegal_transition"


class StatusColumns(TypedDict, total=False):
    """Further columns that may change with the status, in the same UPDATE."""

    site_id: int | None
    queue_id: int | None
    pilot_id: int | None
    matched_at: datetime | None
    heartbeat_at: datetime | None
    exit_code: int | None
    cpu_s: float | None
    wall_s: float | None
    max_memory_mb: float | None
    max_disk_mb: float | None
    output_sandbox_id: int | None


#: Events of the statuses that jobs get here.
EVENTS: Final[Mapping[JobStatus, LifeEvent]] = {
    JobStatus.WAITING: LifeEvent.JOB_WAITING,
    JobStatus.CHECKING: LifeEvent.JOB_CHECKING,
    JobStatus.HELD: LifeEvent.JOB_HELD,
    JobStatus.STALLED: LifeEvent.JOB_STALLED,
    JobStatus.RESCHEDULED: LifeEvent.JOB_RESCHEDULED,
    JobStatus.FAILED: LifeEvent.JOB_ENDED,
    JobStatus.KILLED: LifeEvent.JOB_KILLED,
    JobStatus.DELETED: LifeEvent.JOB_DELETED,
}
#: Columns reset when a job waits (again); its history, its number of reschedules and what attempts left stay.
_NO_ATTEMPT: Final[Mapping[str, object]] = {
    "site": None,
    "ce": None,
    "queue": None,
    "pilot_id": None,
    "matched_at": None,
    "started_at": None,
    "heartbeat_at": None,
    "exit_code": None,
    "cpu_s": None,
    "wall_s": None,
    "max_memory_mb": None,
    "max_disk_mb": None,
    "output_sandbox": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The result of a step; jobs that do not exist are left out."""

    #: {job id: previous status}.
    moved: Mapping[int, JobStatus]
    #: {job id: its status, from which the requested one cannot be reached}.
    refused: Mapping[int, JobStatus]

    def errors(self, target: JobStatus) -> dict[int, WmsError]:
        """Return the errors of the refused jobs, which cannot become *target*."""
        return {job_id: illegal(job_id, status, target) for job_id, status in self.refused.items()}


@transaction_required
def record(
    job_ids: Iterable[int],
    *,
    status: JobStatus,
    minor: str | Mapping[int, str] = "",
    application: str | None = None,
    source: str,
    now: datetime,
    only_from: Collection[JobStatus] | None = None,
    also: StatusColumns | None = None,
) -> Recorded:
    """Move those of the jobs that may become *status*; the others do not change.

    Args:
        job_ids: in any order.
        status: the new status.
        minor: new minor status, at most 255 characters; or {job id: that of this job}, with each of *job_ids*.
        application: new application status; None keeps each job's.
        source: user or component that changes it, for the history: a user name, ``pilot 7``, ``matcher``.
        now: the time of the change.
        only_from: narrows the statuses that TRANSITIONS allows (release: Held, though Rescheduled may become Waiting
            too).
        also: further columns, equal for all jobs.
    """
    sources = sources_of(status) if only_from is None else sources_of(status) & frozenset(only_from)
    columns = {**_columns(status, minor=minor, application=application, now=now), **(also or {})}
    moved: dict[int, JobStatus] = {}
    refused: dict[int, JobStatus] = {}
    ordered = sorted(set(job_ids))
    for start in range(0, len(ordered), AT_ONCE):
        found = changes.move(ordered[start : start + AT_ONCE], columns, only_from=sources, source=source)
        for had, ids in found.items():
            (moved if had in sources else refused).update(dict.fromkeys(ids, had))
    if moved and status in EVENTS:
        _tell(sorted(moved), status=status, minor=minor, source=source)
    return Recorded(moved=moved, refused=refused)


def _tell(job_ids: Sequence[int], *, status: JobStatus, minor: str | Mapping[int, str], source: str) -> None:
    of_reason: defaultdict[str, list[int]] = defaultdict(list)
    for job_id in job_ids:
        of_reason[minor if isinstance(minor, str) else minor[job_id]].append(job_id)
    for reason, its_jobs in of_reason.items():
        tell(EVENTS[status], job=its_jobs, status=status, reason=reason, source=source)


@transaction_required
def move(
    job_id: int,
    *,
    status: JobStatus,
    minor: str = "",
    application: str | None = None,
    source: str,
    now: datetime,
    only_from: Collection[JobStatus] | None = None,
    also: StatusColumns | None = None,
) -> JobStatus:
    """Move one job and return its previous status; the arguments are those of ``record``.

    Raises:
        IllegalTransitionError: it cannot become *status*; nothing has changed.
    """
    recorded = record(
        [job_id],
        status=status,
        minor=minor,
        application=application,
        source=source,
        now=now,
        only_from=only_from,
        also=also,
    )
    if job_id not in recorded.moved:
        raise illegal(job_id, recorded.refused.get(job_id), status)
    return recorded.moved[job_id]


@transaction_required
def note_edit(job: Job, *, fields: Collection[str], source: str, now: datetime) -> None:
    """Add to the history that fields of the job's description were changed; its status stays."""
    JobHistory.objects.create(
        job=job,
        changed_at=now,
        status=job.status,
        minor_status=f"Edited: {', '.join(sorted(fields))}",
        application_status=job.application_status,
        source=source,
    )


@transaction_required
def remark(
    job_ids: Collection[int], *, minor: str, source: str, now: datetime, only_from: Collection[JobStatus]
) -> None:
    """Change the minor status of those of the jobs that have another one, and keep their status.

    Args:
        job_ids: in any order.
        minor: new minor status.
        source: as for ``record``.
        now: the time of the change.
        only_from: jobs in other statuses do not change.
    """
    if not job_ids:
        return
    other = _locked(job_ids).filter(status__in=only_from).exclude(minor_status=minor).values_list("pk", flat=True)
    if changing := frozenset(other):
        columns = {"minor_status": minor, "status_changed_at": now}
        changes.change(Job.objects.filter(pk__among=changing), columns, source=source)


@transaction_required
def arrive(jobs: Sequence[NewJob], *, submission: Submission, source: str, now: datetime) -> None:
    """Insert jobs that passed every optimizer: Received, and at once Waiting or Checking.

    Args:
        jobs: of one submission.
        submission: the request; the jobs get its owner, group and VO.
        source: the submitting user.
        now: the time of submission.
    """
    arriving = Arriving(
        submission_id=submission.pk,
        owner_id=submission.owner_id,
        group_id=submission.group_id,
        vo_id=submission.group.vo_id,
        submitted_at=now,
        source=source,
    )
    insert_new_jobs(jobs, arriving)


def illegal(job_id: int, status: JobStatus | None, target: JobStatus) -> IllegalTransitionError:
    """Return the error for job *job_id* in *status* (None: deleted), which cannot become *target*."""
    if status is None:
        return IllegalTransitionError(f"Job {job_id} does not exist any more.")
    sources = " or ".join(sorted(sources_of(target)))
    asked = f"be {target.lower()}" if target in _ASKED_FOR else f"become {target}"
    return IllegalTransitionError(f"Job {job_id} is {status}; only jobs that are {sources} can {asked}.")


def _locked(job_ids: Collection[int]) -> JobQuerySet:
    # A set, not a list: Django checks each value of a list for an expression.
    return Job.objects.filter(pk__among=frozenset(job_ids)).order_by("pk").select_for_update(of=("self",))


def _columns(
    status: JobStatus, *, minor: str | Mapping[int, str], application: str | None, now: datetime
) -> dict[str, object]:
    """Return the columns of every job that becomes *status*."""
    columns: dict[str, object] = {
        "status": status,
        "minor_status": minor if isinstance(minor, str) else changes.of_each_job(minor),
        "status_changed_at": now,
        # A deleted job keeps the time of its end.
        "ended_at": Coalesce("ended_at", now) if status in FINAL else None,
    }
    if application is not None:
        columns["application_status"] = application
    if status is JobStatus.RESCHEDULED:
        columns["reschedules"] = F("reschedules") + 1
    if status is JobStatus.WAITING:
        columns |= _NO_ATTEMPT
    return columns
