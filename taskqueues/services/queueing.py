"""Queueing: jobs enter and leave task queues; a task queue exists while it has jobs (TQM)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from taskqueues import sql
from taskqueues.domain.definition import QueueDefinition, Rounding
from taskqueues.domain.held_back import HeldBack
from taskqueues.domain.shares import total_weight
from taskqueues.models import QueuedJob, TaskQueueChange, no_jobs
from taskqueues.services import priorities
from wms.kernel.db import transaction_required
from wms.wire.amounts import AMOUNTS

#: Rows removed in one transaction, so that others do not wait long for the locks.
REMOVED_AT_ONCE = 1000
#: Rows changed in one transaction.
CHANGED_AT_ONCE = 1000


class WaitingJob(NamedTuple):
    """A job on its way into a task queue."""

    job_id: int
    definition: QueueDefinition
    user_priority: int
    #: None: any pilot that fits may get it at once.
    held_back: HeldBack | None = None


def rounding() -> Rounding:
    """Return the configured rounding of requirements."""
    return Rounding(
        cpu_segments_s=settings.WMS_CPU_SEGMENTS_S,
        steps={amount.name: getattr(settings, amount.step_setting) for amount in AMOUNTS if amount.step_setting},
    )


@transaction_required
def enqueue(jobs: Sequence[WaitingJob], *, now: datetime) -> Mapping[int, int]:
    """Put the jobs into the task queues of their definitions, and create those that do not exist.

    Call it once in a transaction and as its last locking step: it may wait for another submission of the same new
    definition, which must not wait for this one.

    Returns:
        {job id: task queue id}.
    """
    # Mostly thousands of jobs refer to one object, which is quicker to recognise than an equal one.
    definitions = {id(job.definition): job.definition for job in jobs}
    load: dict[QueueDefinition, Counter[int]] = {definition: Counter() for definition in definitions.values()}
    for (definition, level), number in Counter((id(job.definition), job.user_priority) for job in jobs).items():
        load[definitions[definition]][level] += number
    queues = _find_or_create({definition: total_weight(levels) for definition, levels in load.items()}, now=now)
    queue_of = {key: queues[definition] for key, definition in definitions.items()}
    sql.insert_queued_jobs(
        [(job.job_id, queue_of[id(job.definition)], job.user_priority) for job in jobs if job.held_back is None]
    )
    if delayed := [job for job in jobs if job.held_back is not None]:
        _insert_held_back(delayed, queues)
    return {job.job_id: queue_of[id(job.definition)] for job in jobs}


@transaction_required
def withdraw(job_ids: Collection[int]) -> frozenset[int]:
    """Take the jobs out of their task queues; return those that were still there (a pilot took the others first)."""
    return sql.delete_queued_jobs(job_ids)


def held_back(job_ids: Collection[int]) -> Mapping[int, HeldBack]:
    """Return the delay and avoided places of those of the queued jobs that are held back."""
    rows = QueuedJob.objects.filter(pk__among=frozenset(job_ids), is_held_back=True)
    return {row.job_id: as_held_back(row) for row in rows}


def as_held_back(row: QueuedJob) -> HeldBack:
    """Return the delay and avoided places of a row that is held back.

    Raises:
        ValueError: it is not held back.
    """
    if row.not_before is None:
        raise ValueError(f"{row} is not held back")
    return HeldBack(
        not_before=row.not_before,
        avoided_until=row.avoided_until,
        avoided_queue_ids=tuple(row.avoided_queue_ids or ()),
        avoided_host=row.avoided_host,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoiding:
    """Queued jobs of a task queue that avoid the same places."""

    task_queue_id: int
    #: As in ``HeldBack``.
    queue_ids: tuple[int, ...]
    host: str | None

    def rows(self, *, now: datetime) -> QuerySet[QueuedJob]:
        """Return those whose avoidance has not ended."""
        return QueuedJob.objects.filter(
            task_queue=self.task_queue_id,
            is_held_back=True,
            avoided_until__gt=now,
            avoided_queue_ids=list(self.queue_ids),
            avoided_host=self.host,
        )


def avoiding(*, now: datetime) -> list[Avoiding]:
    """Return the avoided places, by task queue."""
    rows = QueuedJob.objects.filter(is_held_back=True, avoided_until__gt=now)
    places = rows.order_by("task_queue", "avoided_queue_ids", "avoided_host").distinct()
    return [
        Avoiding(task_queue_id=task_queue_id, queue_ids=tuple(queue_ids or ()), host=host)
        for task_queue_id, queue_ids, host in places.values_list("task_queue", "avoided_queue_ids", "avoided_host")
    ]


def avoid_only(jobs: Avoiding, queue_ids: Sequence[int], *, now: datetime) -> int:
    """Reduce the places that the jobs avoid to these queues (none: no place); return how many jobs changed.

    Jobs locked by a claim or by a withdrawal are left out.
    """
    until = {} if queue_ids else {"avoided_until": None}
    changed = 0
    while True:
        with transaction.atomic(durable=True):
            locked = jobs.rows(now=now).order_by("pk").select_for_update(skip_locked=True)[:CHANGED_AT_ONCE]
            rows = list(locked.values_list("pk", "user_priority"))
            QueuedJob.objects.filter(pk__among=[pk for pk, _ in rows]).update(
                avoided_queue_ids=list(queue_ids) or None, avoided_host=None, **until
            )
            # The number of jobs is unchanged: those who found them held back try again.
            TaskQueueChange.objects.bulk_create(
                TaskQueueChange(task_queue_id=jobs.task_queue_id, user_priority=level, jobs=number)
                for level in sorted({level for _, level in rows})
                for number in (1, -1)
            )
        changed += len(rows)
        if len(rows) < CHANGED_AT_ONCE:
            return changed


def remove_empty(*, now: datetime, task_queue_ids: Collection[int] | None = None) -> int:
    """Remove task queues without jobs, of those named or of all; return the number.

    A job that another transaction puts into such a task queue meanwhile is safe: its key-share lock keeps the task
    queue from being locked here, and after the lock jobs are searched in a new statement, which sees what was committed
    in between.
    """
    removed = 0
    while True:
        with transaction.atomic(durable=True):
            locked = sql.lock_empty_queues(among=task_queue_ids, at_most=REMOVED_AT_ONCE)
            removed += sql.delete_empty_queues(locked, now=now) if locked else 0
        if len(locked) < REMOVED_AT_ONCE:
            return removed


def _find_or_create(weights: Mapping[QueueDefinition, float], *, now: datetime) -> dict[QueueDefinition, int]:
    definition_of = {definition.signature(): definition for definition in weights}
    ids = sql.keep_queues(definition_of.keys())
    while len(ids) < len(definition_of):
        with transaction.atomic():
            missing = {signature: definition_of[signature] for signature in definition_of.keys() - ids.keys()}
            _create(missing, weights, now=now)
            ids = sql.keep_queues(definition_of.keys())
            if len(ids) == len(definition_of):
                break
            # Another transaction's new task queue was removed before it was locked: try again, without locks on those
            # created now. With them, the common order of creation would be broken.
            transaction.set_rollback(True)
        ids = sql.keep_queues(definition_of.keys())
    return {definition_of[signature]: pk for signature, pk in ids.items()}


def _insert_held_back(jobs: Sequence[WaitingJob], queue_of: Mapping[QueueDefinition, int]) -> None:
    """Put jobs that are held back into their task queues, and write the changes for the indexes."""
    rows = [
        QueuedJob(
            job_id=job.job_id,
            task_queue_id=queue_of[job.definition],
            user_priority=job.user_priority,
            is_held_back=True,
            not_before=held_back.not_before,
            avoided_until=held_back.avoided_until,
            avoided_queue_ids=list(held_back.avoided_queue_ids) or None,
            avoided_host=held_back.avoided_host,
        )
        for job in jobs
        if (held_back := job.held_back) is not None
    ]
    QueuedJob.objects.bulk_create(rows)
    TaskQueueChange.objects.bulk_create(
        TaskQueueChange(task_queue_id=row.task_queue_id, user_priority=row.user_priority, jobs=1) for row in rows
    )


def _create(
    missing: Mapping[bytes, QueueDefinition], weights: Mapping[QueueDefinition, float], *, now: datetime
) -> None:
    new_priority = priorities.of_new_queues({definition: weights[definition] for definition in missing.values()})
    sql.insert_queues(
        {
            "signature": f"\\x{signature.hex()}",
            "priority": new_priority[definition],
            "weight": weights[definition],
            "jobs_of_level": no_jobs(),
            "created_at": now.isoformat(),
            **definition.columns(),
        }
        for signature, definition in missing.items()
    )
    priorities.mark_groups({definition.group_id for definition in missing.values()}, now=now)
