"""From a job's description to its place in a task queue (DESIGN §3.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from taskqueues.domain.definition import QueueDefinition, define
from taskqueues.domain.held_back import HeldBack
from taskqueues.services import queueing, submit_pools
from taskqueues.services.queueing import WaitingJob
from wms.accounts.models import VO
from wms.jobs.domain.data import WAITS_FOR_REPLICAS, WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import input_data, transitions
from wms.kernel.db import transaction_required


class JobRequirements(NamedTuple):
    """What a job asks of a task queue; jobs that ask the same wait in the same one.

    It is as its description says, but for the sites: those that do not hold its input data are left out.
    """

    owner_id: int
    group_id: int
    vo_id: int
    setup: str
    cpu_time_s: int
    submit_pools: tuple[str, ...]
    pilot_types: tuple[str, ...]
    sites: tuple[str, ...]
    banned_sites: tuple[str, ...]
    grid_ces: tuple[str, ...]
    grid_middlewares: tuple[str, ...]
    platforms: tuple[str, ...]
    job_type: str
    tags: tuple[str, ...]
    processors: int
    memory_mb: int
    wall_time_s: int
    gpus: int
    disk_mb: int
    #: Whether a container runtime is needed; the image is the pilot's business.
    container: bool
    software: tuple[str, ...]


class EnqueuedJob(NamedTuple):
    """One job on its way into a task queue."""

    job_id: int
    priority: int
    requirements: JobRequirements
    held_back: HeldBack | None = None


@transaction_required
def put_in_queues(arriving: Iterable[EnqueuedJob], *, now: datetime) -> Mapping[int, int]:
    """Put jobs that are Waiting into the queues of what they ask; the last locking step of a transaction.

    Returns:
        {job id: task queue id}.
    """
    # Jobs of one request ask the same, or one of a few things: each is defined once.
    known: dict[JobRequirements, QueueDefinition] = {}
    waiting = []
    for job_id, priority, requirements, held_back in arriving:
        definition = known.get(requirements)
        if definition is None:
            definition = known[requirements] = _definition(requirements)
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
    """Put jobs that waited before, and wait again, into queues; the last locking step of a transaction.

    Their submit pools are registered again: while no waiting job needed it, one may have been removed (RFC7 §3). Where
    their input data are is looked up again too: once, or what is noted with a job could be another answer than the one
    that chose its queue. Those that may run nowhere because of it become, or stay, Checking; the others wait, if they
    waited before or are let in.

    Args:
        jobs: read since they were locked; Waiting or Checking, and in no queue.
        now: the time of the change.
        let_in: those of the Checking jobs that may wait, as far as quotas of waiting jobs are concerned.
        held_back: {job: when and where it may be matched}; a job that is missing may be at once and everywhere.

    Returns:
        {job id: task queue id}, without those that are Checking.
    """
    holding = input_data.locate(jobs)
    input_data.keep(jobs, holding)
    where = {job.pk: input_data.where(job, holding) for job in jobs}
    lost = [job.pk for job in jobs if where[job.pk] is None]
    checking = [job.pk for job in jobs if where[job.pk] is not None and job.status == JobStatus.CHECKING]
    without_room = frozenset(checking) - frozenset(let_in)
    record = partial(transitions.record, source="input data", now=now)
    remark = partial(transitions.remark, source="input data", now=now, only_from={JobStatus.CHECKING})
    record(lost, status=JobStatus.CHECKING, minor=WAITS_FOR_REPLICAS)
    remark(lost, minor=WAITS_FOR_REPLICAS)
    remark(without_room, minor=WAITS_FOR_ROOM)
    record(frozenset(checking) - without_room, status=JobStatus.WAITING)
    stays_out = {job.pk for job in jobs if where[job.pk] is None or job.pk in without_room}
    carried = {job.pk: held_back.get(job.pk) if job.pk in stays_out else None for job in jobs}
    carried = {job.pk: carried[job.pk] for job in jobs if carried[job.pk] is not None or job.held_back is not None}
    jobs = [job for job in jobs if job.pk not in stays_out]
    required = {(job.vo_id, *job.submit_pools): job.description["requirements"] for job in jobs}
    vos = VO.objects.in_bulk({job.vo_id for job in jobs if job.description["requirements"]})
    # In one order for all, or two that make the same pools would wait for each other.
    for (vo_id, *_), requirements in sorted(required.items(), key=itemgetter(0)):
        if requirements:
            submit_pools.register(vo=vos[vo_id], requirements=requirements, now=now)
    # Under the locks on their rows, before those on task queues.
    carry_held_back(carried)
    return put_in_queues(
        [
            EnqueuedJob(job.pk, job.priority, _asked_by(job, where[job.pk] or ()), held_back=held_back.get(job.pk))
            for job in jobs
        ],
        now=now,
    )


@transaction_required
def carry_held_back(held_back: Mapping[int, HeldBack | None]) -> None:
    """Have jobs that stand in no queue carry what holds them back, for when they come into one (``carried_by``).

    Args:
        held_back: {job: what it is to carry; None: nothing}; the jobs are locked.
    """
    if held_back:
        rows = [Job(pk=pk, held_back=None if held is None else held.as_json()) for pk, held in held_back.items()]
        Job.objects.bulk_update(rows, ["held_back"])


def carried_by(jobs: Iterable[Job]) -> dict[int, HeldBack]:
    """Return what holds back those of the jobs that carry it since they left their queues."""
    return {job.pk: HeldBack.from_json(job.held_back) for job in jobs if job.held_back is not None}


@transaction_required
def definition_of(job: Job) -> QueueDefinition | None:
    """Return the definition of the queue that the job would go into now; None: it would be Checking."""
    sites = input_data.where(job, input_data.locate([job]))
    return None if sites is None else _definition(_asked_by(job, sites))


def _definition(requirements: JobRequirements) -> QueueDefinition:
    return define(rounding=queueing.rounding(), **requirements._asdict())


def _asked_by(job: Job, sites: tuple[str, ...]) -> JobRequirements:
    wanted = job.description
    return JobRequirements(
        owner_id=job.owner_id,
        group_id=job.group_id,
        vo_id=job.vo_id,
        setup=wanted["setup"],
        cpu_time_s=wanted["cpu_time_s"],
        submit_pools=tuple(job.submit_pools),
        pilot_types=tuple(wanted["pilot_types"]),
        sites=sites,
        banned_sites=tuple(wanted["banned_sites"]),
        grid_ces=tuple(wanted["grid_ces"]),
        grid_middlewares=tuple(wanted["grid_middlewares"]),
        platforms=tuple(wanted["platforms"]),
        job_type=wanted["job_type"],
        tags=tuple(wanted["tags"]),
        processors=wanted["processors"],
        memory_mb=wanted["memory_mb"],
        # Jobs that were submitted before descriptions had these fields ask nothing of them.
        wall_time_s=wanted.get("wall_time_s", 0),
        gpus=wanted.get("gpus", 0),
        disk_mb=wanted.get("disk_mb", 0),
        container=bool(wanted.get("container")),
        software=tuple(wanted.get("software", ())),
    )
