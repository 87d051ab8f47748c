"""From a job's description to its place in a task queue (DESIGN §3.2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from taskqueues.domain.definition import QueueDefinition, define
from taskqueues.services import queueing, submit_pools
from taskqueues.services.queueing import WaitingJob
from wms.accounts.models import VO
from wms.jobs.models import Job
from wms.kernel.db import transaction_required

#: Fields of a stored description that are lists and part of the queue's definition.
_LISTS = ("pilot_types", "sites", "banned_sites", "grid_ces", "grid_middlewares", "platforms", "tags")
_VALUES = ("setup", "cpu_time_s", "job_type", "processors", "memory_mb")


@transaction_required
def put_in_queues(jobs: Sequence[Job], *, now: datetime) -> Mapping[int, int]:
    """Put jobs that are Waiting into the queues of their stored descriptions; the last locking step of a transaction.

    Args:
        jobs: with owner, group, VO, priority, description and submit pools.
        now: the time, for queues that are made and pools that are used.

    Returns:
        {job id: task queue id}.
    """
    known: dict[tuple[object, ...], QueueDefinition] = {}
    waiting = []
    for job in jobs:
        key = _key(job)
        definition = known.get(key)
        if definition is None:
            definition = known[key] = _definition(job)
        waiting.append(WaitingJob(job_id=job.pk, definition=definition, user_priority=job.priority))
    return queueing.enqueue(waiting, now=now)


@transaction_required
def put_back_in_queues(jobs: Sequence[Job], *, now: datetime) -> Mapping[int, int]:
    """Put jobs that waited before into queues as ``put_in_queues`` does, after registering their pools again.

    While no waiting job needed it, a pool may have been removed (RFC7 §3).
    """
    required = {(job.vo_id, *job.submit_pools): job.description["requirements"] for job in jobs}
    vos = VO.objects.in_bulk({job.vo_id for job in jobs if job.description["requirements"]})
    # In one order for all, or two that make the same pools would wait for each other.
    for (vo_id, *_), requirements in sorted(required.items(), key=itemgetter(0)):
        if requirements:
            submit_pools.register(vo=vos[vo_id], requirements=requirements, now=now)
    return put_in_queues(jobs, now=now)


def _key(job: Job) -> tuple[object, ...]:
    wanted = job.description
    return (
        job.owner_id,
        job.group_id,
        job.vo_id,
        *(tuple(wanted[field]) for field in _LISTS),
        *(wanted[field] for field in _VALUES),
        *job.submit_pools,
    )


def _definition(job: Job) -> QueueDefinition:
    wanted = job.description
    return define(
        owner_id=job.owner_id,
        group_id=job.group_id,
        vo_id=job.vo_id,
        rounding=queueing.rounding(),
        submit_pools=job.submit_pools,
        **{field: wanted[field] for field in (*_LISTS, *_VALUES)},
    )
