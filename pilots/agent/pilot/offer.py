"""The offer: the free resources of the slot, sent with each request for jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pilots.agent.node.batch_system import MARGIN, MARGIN_S, Allocation
from pilots.agent.node.benchmark import ERROR
from pilots.agent.node.inspection import NodeReport
from pilots.agent.pilot.options import Options
from pilots.agent.server.configuration import Place
from pilots.agent.server.json_fields import Record
from pilots.agent.server.lease import LeasedJob
from wms.wire.amounts import AMOUNT, DIVIDED, DividedAmounts, divided_amounts_of
from wms.wire.protocol import LARGEST_INTEGER

#: CPU time offered by a slot of unknown length, of a pilot started by hand.
UNLIMITED_CPU_TIME_S = 7 * 24 * 3600
#: Fraction of a slot that may have passed while its full time is still offered. Starting a pilot takes seconds, and a
#: queue exactly as long as a CPU segment must be able to take a job of that segment.
TOLERANCE = 0.01
#: Seconds that count as such a fraction of a short slot's wall-clock time.
STARTING_S = 10.0
#: Usual ratio of the wall-clock limit of a batch queue to its CPU limit: payloads also wait for files.
WALL_FACTOR = 1.5
#: Fraction by which the memory of a node may be below its nominal value: the kernel keeps some.
MEMORY_TOLERANCE = 0.05
#: Outside of a batch system, or in one without information.
UNKNOWN_ALLOCATION = Allocation()
#: Seconds of CPU time below which a slot counts as over.
MIN_CPU_TIME_S = 10


@dataclass(frozen=True)
class _UndividedResources:
    # Apart, because fields without a default must come first, and Python 3.9 has none that are given by name only.

    #: Reference-core seconds, per core.
    cpu_time_s: int
    #: Seconds from its start to its end; None: unknown.
    wall_time_s: int | None
    #: Whether containers can be run.
    container: bool
    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    required_tags: tuple[str, ...]


@dataclass(frozen=True)
class Resources(DividedAmounts, _UndividedResources):
    """Resources of the whole slot, or free ones."""

    #: Speed of a core of this node, relative to the reference core.
    speed: float = 1.0
    #: Seconds from the slot's start until its payloads must have ended; None: the batch system gives no limit.
    usable_s: float | None = None

    def cpu_left_s(self, elapsed_s: float) -> int:
        """Return the CPU time per core that is left *elapsed_s* after the start, in reference-core seconds.

        The rest of the slot's CPU time, but no more than a core can do in the rest of its wall-clock time; negative
        when the slot is over.
        """
        if elapsed_s <= min(self.cpu_time_s * TOLERANCE, _starting_s(self.wall_time_s or math.inf)):
            return self.cpu_time_s
        # A fast core has used more. A slow one counts as the reference, because it is not known whether the batch
        # system counts reference seconds or its own.
        left_s = self.cpu_time_s - elapsed_s * max(1.0, self.speed)
        return int(min(left_s, (self._end_s() - elapsed_s) * self.speed))

    def wall_left_s(self, elapsed_s: float) -> int | None:
        """Return the wall-clock time that is left *elapsed_s* after the start; None: unknown."""
        if self.wall_time_s is None or elapsed_s <= _starting_s(self.wall_time_s):
            return self.wall_time_s
        return max(0, int(self._end_s() - elapsed_s))

    def cpu_limit_s(self, asked_s: float) -> float:
        """Return the limit in CPU seconds of this node for a job that requires *asked_s* reference-core seconds.

        A slow core raises it. A fast one does not lower it: the short benchmark is too inexact to end jobs.
        """
        return asked_s / min(1.0, self.speed)

    def memory_share_mb(self, processors: int) -> float:
        """Return the memory that belongs to this number of processors."""
        return self.memory_mb * min(1.0, processors / max(1, self.processors))

    def _end_s(self) -> float:
        """Return the end of the slot, in seconds after its start; infinity: unknown."""
        return min((each for each in (self.wall_time_s, self.usable_s) if each is not None), default=math.inf)

    def payload_wall_s(self, elapsed_s: float, *, asked_s: int) -> float:
        """Return the seconds for which a payload may run.

        Args:
            elapsed_s: since the start of the slot.
            asked_s: wall-clock time of the job; 0: not given.
        """
        if not math.isinf(end_s := self._end_s()):
            return end_s - elapsed_s
        # The job's own value is better than an estimate.
        return max(self.cpu_limit_s(self.cpu_time_s) * WALL_FACTOR - elapsed_s, asked_s)


def resources_of(
    options: Options,
    place: Place,
    node: NodeReport,
    *,
    allocation: Allocation = UNKNOWN_ALLOCATION,
    started_at: float = 0.0,
) -> Resources:
    """Return the slot's resources: from the command line, else from the server's configuration of the queue.

    They never exceed what the batch system grants and the node has, which also give the values that neither the
    command line nor the server has.

    Args:
        options: of the command line.
        place: the queue, from the server.
        node: result of the inspection.
        allocation: of the batch system.
        started_at: monotonic time of the pilot's start.
    """
    usable_s = allocation.usable_until(started_at=started_at)
    wall_time_s = _wall_time_s(options.wall_time_s or place.wall_time_s, usable_s)
    return Resources(
        **_divided(options, place, node, allocation),
        cpu_time_s=_cpu_time_s(options.cpu_time_s or place.cpu_time_s, wall_time_s, speed=node.speed),
        wall_time_s=wall_time_s,
        container=node.container_runtime is not None and place.container is not False,
        # The server compares it with the platforms of the queue.
        platforms=options.platforms or (node.platform,),
        tags=_unique(options.tags or place.tags, options.required_tags or place.required_tags),
        required_tags=options.required_tags or place.required_tags,
        speed=node.speed,
        usable_s=usable_s,
    )


def _divided(options: Options, place: Place, node: NodeReport, allocation: Allocation) -> dict[str, int]:
    processors = _least(options.processors or place.processors or 1, allocation.processors, node.processors)
    part = min(1.0, processors / node.processors)
    free_mb = min(int(node.disk_mb or 0.0), LARGEST_INTEGER)
    measured = {
        "processors": processors,
        "memory_mb": _memory_mb(options.memory_mb or place.memory_mb, allocation, node, part=part),
        "gpus": _first(options.gpus, _at_most(place.gpus, len(node.gpus)), len(node.gpus)),
        "disk_mb": _first(options.disk_mb, _at_most(place.disk_mb, free_mb), int(free_mb * part)),
    }
    stated = {name: _first(getattr(options, name), getattr(place, name), AMOUNT[name].least) for name in DIVIDED}
    return {**stated, **measured}


def offer_of(resources: Resources, *, elapsed_s: float, setup: str = "") -> Record:
    """Return the body of POST /api/v1/matches/, with a new ``request_id``; repeat this body until it is answered.

    Args:
        resources: those that are free.
        elapsed_s: seconds since the start of the slot.
        setup: chosen by the command line; empty: the server chooses it.
    """
    wall_left_s = resources.wall_left_s(elapsed_s)
    return {
        "request_id": str(uuid4()),
        "cpu_time_s": resources.cpu_left_s(elapsed_s),
        **divided_amounts_of(resources),
        **({} if wall_left_s is None else {"wall_time_s": wall_left_s}),
        **({"setup": setup} if setup else {}),
        "container": resources.container,
        "platforms": list(resources.platforms),
        "tags": list(resources.tags),
        "required_tags": list(resources.required_tags),
    }


def _wall_time_s(length_s: int | None, usable_s: float | None) -> int | None:
    """Return the wall-clock time of the slot: the configured one if the usable time is as expected for it."""
    if usable_s is None:
        return length_s
    if length_s is not None and length_s <= usable_s + min(MARGIN_S, length_s * MARGIN) + _starting_s(length_s):
        return length_s
    return max(0, int(usable_s))


def _cpu_time_s(configured_s: int | None, wall_time_s: int | None, *, speed: float) -> int:
    """Return the CPU time of the slot: the configured one, unless this node cannot do it in its wall-clock time.

    A shortfall below the error of the benchmark is ignored, so that a queue exactly as long as a CPU segment always
    takes jobs of that segment.
    """
    if wall_time_s is None:
        return configured_s or UNLIMITED_CPU_TIME_S
    done_s = wall_time_s * speed
    return configured_s if configured_s is not None and configured_s * (1 - ERROR) <= done_s else int(done_s)


def _memory_mb(configured_mb: int | None, allocation: Allocation, node: NodeReport, *, part: float) -> int:
    """Return the memory of the slot; without configuration, this *part* of the node's memory."""
    if configured_mb is None:
        return _least(int((node.memory_mb or 0.0) * part), allocation.memory_mb)
    if node.memory_mb is None or node.memory_mb >= configured_mb * (1 - MEMORY_TOLERANCE):
        return _least(configured_mb, allocation.memory_mb)
    return _least(configured_mb, allocation.memory_mb, int(node.memory_mb))


def _starting_s(wall_time_s: float) -> float:
    return max(wall_time_s * TOLERANCE, STARTING_S)


def _least(amount: int, *others: int | None) -> int:
    """Return the smallest amount that is not None."""
    return min([amount, *(other for other in others if other is not None)])


def _at_most(configured: int | None, available: int) -> int | None:
    return None if configured is None else min(configured, available)


def _first(*amounts: int | None) -> int:
    """Return the first amount that is not None."""
    return next(amount for amount in amounts if amount is not None)


def _unique(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({tag for tags in lists for tag in tags}))


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
