"""Task queues and the jobs in them."""

from collections.abc import Sequence
from dataclasses import asdict

from taskqueues.domain.definition import QueueDefinition
from taskqueues.models import QueuedJob, TaskQueue
from tests.factories.accounts import make_group, member
from tests.factories.names import NOW, numbers
from wms.accounts.models import Group, User


def make_task_queue(
    *,
    owner: User | None = None,
    group: Group | None = None,
    setup: str | None = None,
    cpu_time_s: int = 300_000,
    submit_pools: Sequence[str] = (),
    pilot_types: Sequence[str] = (),
    sites: Sequence[str] = (),
    banned_sites: Sequence[str] = (),
    grid_ces: Sequence[str] = (),
    grid_middlewares: Sequence[str] = (),
    platforms: Sequence[str] = (),
    job_type: str = "User",
    tags: Sequence[str] = (),
    processors: int = 1,
    memory_mb: int = 0,
    wall_time_s: int = 0,
    gpus: int = 0,
    disk_mb: int = 0,
    container: bool = False,
    software: Sequence[str] = (),
    priority: float = 1.0,
    job_ids: Sequence[int] = (),
    user_priority: int = 1,
) -> TaskQueue:
    """Return a task queue with the waiting jobs *job_ids*, which need not exist."""
    group = group or make_group()
    owner = member(owner, group)
    definition = QueueDefinition(
        owner_id=owner.pk,
        group_id=group.pk,
        vo_id=group.vo_id,
        setup=setup or group.vo.setup,
        cpu_time_s=cpu_time_s,
        submit_pools=tuple(sorted(submit_pools)),
        pilot_types=tuple(sorted(pilot_types)),
        sites=tuple(sorted(sites)),
        banned_sites=tuple(sorted(banned_sites)),
        grid_ces=tuple(sorted(grid_ces)),
        grid_middlewares=tuple(sorted(grid_middlewares)),
        platforms=tuple(sorted(platforms)),
        job_type=job_type,
        tags=tuple(sorted(tags)),
        processors=processors,
        memory_mb=memory_mb,
        wall_time_s=wall_time_s,
        gpus=gpus,
        disk_mb=disk_mb,
        container=container,
        software=tuple(sorted(software)),
    )
    task_queue = TaskQueue.objects.create(
        **asdict(definition), signature=definition.signature(), priority=priority, created_at=NOW
    )
    for job_id in job_ids:
        make_queued_job(job_id=job_id, task_queue=task_queue, user_priority=user_priority)
    return task_queue


def make_queued_job(
    *, job_id: int | None = None, task_queue: TaskQueue | None = None, user_priority: int = 1
) -> QueuedJob:
    return QueuedJob.objects.create(
        job_id=job_id or next(numbers), task_queue=task_queue or make_task_queue(), user_priority=user_priority
    )
