"""From a job's description to its place in a task queue (DESIGN §3.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Self

from taskqueues.domain.definition import QueueDefinition, define
from taskqueues.services import queueing, submit_pools
from taskqueues.services.queueing import WaitingJob
from wms.accounts.models import VO
from wms.jobs.models import Job
from wms.kernel.db import transaction_required

#: Fields of a stored description that are lists and part of the queue's definition.
_LISTS = ("pilot_types", "sites", "banned_sites", "grid_ces", "grid_middlewares", "platforms", "tags")
_VALUES = ("setup", "cpu_time_s", "job_type", "processors", "memory_mb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one job asks of a task queue."""

    job_id: int
    owner_id: int
    group_id: int
    vo_id: int
    priority: int
    #: As stored: every field is there.
    description: Mapping[str, Any]
    submit_pools: Sequence[str]

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return what a stored job asks."""
        return cls(
            job_id=job.pk,
            owner_id=job.owner_id,
            group_id=job.group_id,
            vo_id=job.vo_id,
            priority=job.priority,
            description=job.description,
            submit_pools=job.submit_pools,
        )


@transaction_required
def put_in_queues(demands: Iterable[Demand], *, now: datetime) -> Mapping[int, int]:
    """Put jobs that are Waiting into the queues of what they ask; the last locking step of a transaction.

    Returns:
        {job id: task queue id}.
    """
    known: dict[tuple[object, ...], QueueDefinition] = {}
    waiting = []
    for demand in demands:
        key = _key(demand)
        definition = known.get(key)
        if definition is None:
            definition = known[key] = _definition(demand)
        waiting.append(WaitingJob(job_id=demand.job_id, definition=definition, user_priority=demand.priority))
    return queueing.enqueue(waiting, now=now)


@transaction_required
def put_back_in_queues(jobs: Sequence[Job], *, now: datetime) -> Mapping[int, int]:
    """Put jobs that waited before, and wait again, into queues; the last locking step of a transaction.

    Their submit pools are registered again: while no waiting job needed it, one may have been removed (RFC7 §3).

    Returns:
        {job id: task queue id}.
    """
    required = {(job.vo_id, *job.submit_pools): job.description["requirements"] for job in jobs}
    vos = VO.objects.in_bulk({job.vo_id for job in jobs if job.description["requirements"]})
    # In one order for all, or two that make the same pools would wait for each other.
    for (vo_id, *_), requirements in sorted(required.items(), key=itemgetter(0)):
        if requirements:
            submit_pools.register(vo=vos[vo_id], requirements=requirements, now=now)
    return put_in_queues(map(Demand.of, jobs), now=now)


def _key(demand: Demand) -> tuple[object, ...]:
    wanted = demand.description
    return (
        demand.owner_id,
        demand.group_id,
        demand.vo_id,
        *(tuple(wanted[field]) for field in _LISTS),
        *(wanted[field] for field in _VALUES),
        *demand.submit_pools,
    )


def _definition(demand: Demand) -> QueueDefinition:
    wanted = demand.description
    return define(
        owner_id=demand.owner_id,
        group_id=demand.group_id,
        vo_id=demand.vo_id,
        rounding=queueing.rounding(),
        submit_pools=demand.submit_pools,
        **{field: wanted[field] for field in (*_LISTS, *_VALUES)},
    )
