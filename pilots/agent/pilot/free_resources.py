"""What is left of a slot beside the jobs that run in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilots.agent.pilot.offer import Resources
from pilots.agent.server.lease import LeasedJob


def left_of(slot: Resources, jobs: Iterable[LeasedJob], *, free_disk_mb: int) -> Resources:
    """Return the resources that the jobs do not have.

    Args:
        slot: all of it, its disk as it was before these jobs wrote to it.
        jobs: that run now.
        free_disk_mb: as it was last seen, perhaps while they wrote.
    """
    running = list(jobs)
    return replace(
        slot,
        processors=slot.processors - sum(job.processors for job in running),
        memory_mb=max(0, slot.memory_mb - sum(job.memory_mb for job in running)),
        gpus=max(0, slot.gpus - sum(job.gpus for job in running)),
        # What the jobs have written already is both of their part and no longer free: it must not count twice.
        disk_mb=max(0, min(slot.disk_mb - sum(job.disk_mb for job in running), free_disk_mb)),
    )


def is_useful(left: Resources, *, slot: Resources) -> bool:
    """Return whether another job could run in what is left.

    A job that asks no memory needs some all the same: none comes to a slot whose memory others have.
    """
    return left.processors >= 1 and (left.memory_mb > 0 or slot.memory_mb == 0)


def free_gpus(names: Sequence[str], taken: Iterable[str], *, wanted: int) -> tuple[str, ...]:
    """Return the GPUs of a new job: the first of *names* that no other job has; fewer where there are fewer."""
    others = frozenset(taken)
    return tuple(name for name in names if name not in others)[:wanted]
