"""Free resources: the slot without the shares of its running jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilots.agent.pilot.offer import Resources
from pilots.agent.server.lease import LeasedJob
from wms.wire.amounts import DIVIDED


def left_of(slot: Resources, jobs: Iterable[LeasedJob], *, free_disk_mb: int) -> Resources:
    """Return the resources of the slot that the jobs leave free.

    Args:
        slot: the whole slot, with the free disk before these jobs.
        jobs: running now.
        free_disk_mb: last measured, possibly while they were writing.
    """
    running = list(jobs)
    left = {name: max(0, getattr(slot, name) - sum(getattr(job, name) for job in running)) for name in DIVIDED}
    # Files that jobs have written are in their share and missing in free_disk_mb; they must not count twice.
    left["disk_mb"] = min(left["disk_mb"], max(0, free_disk_mb))
    return replace(slot, **left)


def is_useful(left: Resources, *, slot: Resources) -> bool:
    """Return whether another job could run in the free resources.

    Even a job that requires no memory uses some, so none is requested when all memory is taken.
    """
    return left.processors >= 1 and (left.memory_mb > 0 or slot.memory_mb == 0)


def free_gpus(names: Sequence[str], taken: Iterable[str], *, count: int) -> tuple[str, ...]:
    """Return the GPUs of a new job: the first of *names* that no other job has; fewer where there are fewer."""
    others = frozenset(taken)
    return tuple(name for name in names if name not in others)[:count]
