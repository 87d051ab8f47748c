"""Enqueueing of jobs: from the description to a task queue (docs/architecture.md, Task queues)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from taskqueues.domain.definition import LISTS, JobRequirements, QueueDefinition, define
from taskqueues.domain.held_back import HeldBack
from taskqueues.services import queueing, submit_pools
from taskqueues.services.queueing import WaitingJob
from wms.accounts.models import VO
from wms.jobs.domain.data import WAITS_FOR_REPLICAS, WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import input_data, transitions
from wms.kernel.db import transaction_required
from wms.wire.amounts import amounts_in


class EnqueuedJob(NamedTuple):
    """One job to be put into a task queue."""

    job_id: int
    priority: int
    requirements: JobRequirements
    held_back: HeldBack | None = None


@transaction_required
def put_in_queues(arriving: Iterable[EnqueuedJob], *, now: datetime) -> Mapping[int, int]:
    """Put Waiting jobs into the task queues of their requirements; the last locking step of a transaction.

    Returns:
        {job id: task queue id}.
    """
    # Jobs of one request have equal requirements, or a few different ones: each is defined once.
    definitions: dict[JobRequirements, QueueDefinition] = {}
    waiting = []
    for job_id, priority, requirements, held_back in arriving:
        definition = definitions.get(requirements)
        if definition is None:
            definition = definitions[requirements] = queue_definition(requirements)
        waiting.append(WaitingJob(job_id=job_id, definition=definition, user_priority=priority, held_back=held_back))
    return queueing.enqueue(waiting, now=now)


@transaction_required
def put_back_in_queues(
    jobs: Sequence[Job],
    *,
    now: datetime,
    let_in: Collection[int] = frozenset(),
    held_back: Mapping[int, HeldBack] = MappingProxyType({}),
) -> Mapping[int, int]:
    """Put jobs that waited before into task queues again; the last locking step of a transaction.

    Their submit pools are registered again, because unused ones are removed (RFC7 §3). The sites of their input data
    are looked up again, once, so that the sites stored with a job are those that chose its task queue. Jobs without a
    possible site become or stay Checking; the others wait, if they waited before or are let in.

    Args:
        jobs: read since they were locked; Waiting or Checking, and in no task queue.
        now: the time of the change.
        let_in: the Checking jobs for which the quotas of waiting jobs have room.
        held_back: {job: when and where it may be matched}; missing jobs may be matched at once and everywhere.

    Returns:
        {job id: task queue id}, without Checking jobs.
    """
    holding = input_data.locate(jobs)
    input_data.keep(jobs, holding)
    where = {job.pk: input_data.where(job, holding) for job in jobs}
    lost = [job.pk for job in jobs if where[job.pk] is None]
    checking = [job.pk for job in jobs if where[job.pk] is not None and job.status == JobStatus.CHECKING]
    without_room = frozenset(checking) - frozenset(let_in)
    _record(lost=lost, without_room=without_room, admitted=frozenset(checking) - without_room, now=now)
    stays_out = {job.pk for job in jobs if where[job.pk] is None or job.pk in without_room}
    carried = _carried(jobs, held_back=held_back, stays_out=stays_out)
    jobs = [job for job in jobs if job.pk not in stays_out]
    _register_pools(jobs, now=now)
    # While the jobs are locked, before task queues are.
    carry_held_back(carried)
    entering = (
        EnqueuedJob(job.pk, job.priority, _requirements_of(job, where[job.pk] or ()), held_back.get(job.pk))
        for job in jobs
    )
    return put_in_queues(entering, now=now)


def _carried(
    jobs: Iterable[Job], *, held_back: Mapping[int, HeldBack], stays_out: Collection[int]
) -> dict[int, HeldBack | None]:
    carried = {job.pk: held_back.get(job.pk) if job.pk in stays_out else None for job in jobs}
    return {job.pk: carried[job.pk] for job in jobs if carried[job.pk] is not None or job.held_back is not None}


def _record(*, lost: Collection[int], without_room: Collection[int], admitted: Collection[int], now: datetime) -> None:
    """Record which jobs are Checking, and why, and which of these wait now."""
    record = partial(transitions.record, source="input data", now=now)
    remark = partial(transitions.remark, source="input data", now=now, only_from={JobStatus.CHECKING})
    record(lost, status=JobStatus.CHECKING, minor=WAITS_FOR_REPLICAS)
    remark(lost, minor=WAITS_FOR_REPLICAS)
    remark(without_room, minor=WAITS_FOR_ROOM)
    record(admitted, status=JobStatus.WAITING)


def _register_pools(jobs: Iterable[Job], *, now: datetime) -> None:
    requiring = [job for job in jobs if job.description["requirements"]]
    required = {(job.vo_id, *job.submit_pools): job.description["requirements"] for job in requiring}
    vos = VO.objects.in_bulk({vo_id for vo_id, *_ in required})
    # In one order for all: two transactions that register the same pools must not wait for each other.
    for (vo_id, *_), requirements in sorted(required.items(), key=itemgetter(0)):
        submit_pools.register(vo=vos[vo_id], requirements=requirements, now=now)


@transaction_required
def carry_held_back(held_back: Mapping[int, HeldBack | None]) -> None:
    """Store with jobs in no task queue what holds them back, until they enter one (``carried_by``).

    Args:
        held_back: {job: value to store, or None}; the jobs are locked.
    """
    if held_back:
        rows = [Job(pk=pk, held_back=None if held is None else held.as_json()) for pk, held in held_back.items()]
        Job.objects.bulk_update(rows, ["held_back"])


def carried_by(jobs: Iterable[Job]) -> dict[int, HeldBack]:
    """Return what holds the jobs back, of those that carry it since they left their task queues."""
    return {job.pk: HeldBack.from_json(job.held_back) for job in jobs if job.held_back is not None}


@transaction_required
def definitions_of(jobs: Sequence[Job]) -> dict[int, QueueDefinition]:
    """Return {job id: definition of the task queue that it would enter now}, without jobs that would be Checking."""
    holding = input_data.locate(jobs)
    where = {job.pk: input_data.where(job, holding) for job in jobs}
    return {
        job.pk: queue_definition(_requirements_of(job, sites)) for job in jobs if (sites := where[job.pk]) is not None
    }


def queue_definition(requirements: JobRequirements) -> QueueDefinition:
    """Return the definition of the task queue for jobs with these requirements."""
    return define(requirements, rounding=queueing.rounding())


def _requirements_of(job: Job, sites: tuple[str, ...]) -> JobRequirements:
    description = job.description
    # Descriptions of an earlier version lack fields that came later.
    lists: dict[str, Any] = {name: tuple(description.get(name, ())) for name in LISTS}
    return JobRequirements(
        **{**lists, "submit_pools": tuple(job.submit_pools), "sites": sites},
        **amounts_in(description),
        owner_id=job.owner_id,
        group_id=job.group_id,
        vo_id=job.vo_id,
        setup=description["setup"],
        cpu_time_s=description["cpu_time_s"],
        job_type=description["job_type"],
        container=bool(description.get("container")),
    )
