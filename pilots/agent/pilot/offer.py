"""What the pilot offers with each request for a job: what is left of its slot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from uuid import uuid4

from pilots.agent.node.batch_system import MARGIN, MARGIN_S, Allocation
from pilots.agent.node.benchmark import ERROR
from pilots.agent.node.inspection import NodeReport
from pilots.agent.pilot.options import Options
from pilots.agent.server.configuration import Place
from pilots.agent.server.json_fields import Record

#: Of a slot whose length nobody told: a pilot that was started by hand.
UNLIMITED_CPU_TIME_S = 7 * 24 * 3600
#: So much of a slot may have passed before less than all of it is offered. Without it a queue of just the length of a
#: CPU segment could never take a job of that segment, for starting a pilot takes some seconds.
TOLERANCE = 0.01
#: Nor does it count against a short slot's wall-clock time.
STARTING_S = 10.0
#: Wall-clock time of a slot over its CPU time, as batch queues are usually made: payloads also wait for files.
WALL_FACTOR = 1.5
#: What the server takes; a file system of a whole site may have more.
MOST_DISK_MB = 2**31 - 1
#: A node whose memory is sold as so much tells of a little less: its kernel keeps some for itself.
MEMORY_TOLERANCE = 0.05
#: Outside of a batch system, or in one that does not tell.
NOTHING_TOLD = Allocation()
#: With less a slot is as good as over.
MIN_CPU_TIME_S = 10


@dataclass(frozen=True)
class Resources:
    """Of the whole slot."""

    #: Of the reference core, per core.
    cpu_time_s: int
    #: From its start to its end; None: nobody told.
    wall_time_s: int | None
    processors: int
    memory_mb: int
    gpus: int
    disk_mb: int
    #: Whether containers can be run.
    container: bool
    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    required_tags: tuple[str, ...]
    #: Reference-core seconds that a core of this node does in one second of its CPU time.
    speed: float = 1.0
    #: From the slot's start until its payloads must have ended before the batch system ends it; None: it does not say.
    usable_s: float | None = None

    def cpu_left_s(self, elapsed_s: float) -> int:
        """Return the CPU time per core that is left *elapsed_s* after the start, in reference-core seconds.

        It is what the slot's CPU time leaves, and no more than this node does in the wall-clock time that is left;
        negative when it is over.
        """
        if elapsed_s <= min(self.cpu_time_s * TOLERANCE, _starting_s(self.wall_time_s or math.inf)):
            return self.cpu_time_s
        # A fast core has used up more of it. Of a slow one nobody knows whether its batch system counts seconds of the
        # reference or its own, so it is counted as the reference.
        left_s = self.cpu_time_s - elapsed_s * max(1.0, self.speed)
        return int(min(left_s, (self._end_s() - elapsed_s) * self.speed))

    def wall_left_s(self, elapsed_s: float) -> int | None:
        """Return the wall-clock time that is left *elapsed_s* after the start; None: nobody told."""
        if self.wall_time_s is None or elapsed_s <= _starting_s(self.wall_time_s):
            return self.wall_time_s
        return max(0, int(self._end_s() - elapsed_s))

    def cpu_limit_s(self, asked_s: float) -> float:
        """Return the seconds of this node's CPU time that a job may use which asked for so many of the reference core.

        A slow core needs more of them. A fast one does not get less: a measurement of half a second must not end jobs.
        """
        return asked_s / min(1.0, self.speed)

    def _end_s(self) -> float:
        """Return when the slot is over, in seconds after its start; infinity: nobody told."""
        return min((each for each in (self.wall_time_s, self.usable_s) if each is not None), default=math.inf)

    def payload_wall_s(self, elapsed_s: float, *, asked_s: int) -> float:
        """Return how long the slot lets a payload run.

        Args:
            elapsed_s: since the start of the slot.
            asked_s: by the payload's job; 0: it says nothing.
        """
        if not math.isinf(end_s := self._end_s()):
            return end_s - elapsed_s
        # The job's own word goes before a guess.
        return max(self.cpu_limit_s(self.cpu_time_s) * WALL_FACTOR - elapsed_s, asked_s)


def resources_of(
    options: Options, place: Place, node: NodeReport, *, allocation: Allocation = NOTHING_TOLD, started_at: float = 0.0
) -> Resources:
    """Return the slot's resources: by the command line, else by the server's word on the queue.

    Nothing is offered that the batch system did not grant or the node does not have, whatever the server says; what
    neither the command line nor the server tells is what these two give.

    Args:
        options: of the command line.
        place: the queue, as the server knows it.
        node: what was found here.
        allocation: of the batch system.
        started_at: the pilot's start, by its clock.
    """
    usable_s = allocation.usable_until(started_at=started_at)
    wall_time_s = _wall_time_s(options.wall_time_s or place.wall_time_s, usable_s)
    processors = _least(options.processors or place.processors or 1, allocation.processors, node.processors)
    part = min(1.0, processors / node.processors)
    free_mb = min(int(node.disk_mb or 0.0), MOST_DISK_MB)
    return Resources(
        cpu_time_s=_cpu_time_s(options.cpu_time_s or place.cpu_time_s, wall_time_s, speed=node.speed),
        wall_time_s=wall_time_s,
        processors=processors,
        memory_mb=_memory_mb(options.memory_mb or place.memory_mb, allocation, node, part=part),
        gpus=_first(options.gpus, _at_most(place.gpus, len(node.gpus)), len(node.gpus)),
        disk_mb=_first(options.disk_mb, _at_most(place.disk_mb, free_mb), int(free_mb * part)),
        container=node.container_runtime is not None and place.container is not False,
        # The server compares it with what it knows of the queue.
        platforms=options.platforms or (node.platform,),
        tags=_unique(options.tags or place.tags, options.required_tags or place.required_tags),
        required_tags=options.required_tags or place.required_tags,
        speed=node.speed,
        usable_s=usable_s,
    )


def offer_of(resources: Resources, *, elapsed_s: float) -> Record:
    """Return the body of POST /api/matches/; its ``request_id`` is new, and to be sent again until it is answered."""
    wall_left_s = resources.wall_left_s(elapsed_s)
    return {
        "request_id": str(uuid4()),
        "cpu_time_s": resources.cpu_left_s(elapsed_s),
        "processors": resources.processors,
        "memory_mb": resources.memory_mb,
        **({} if wall_left_s is None else {"wall_time_s": wall_left_s}),
        "gpus": resources.gpus,
        "disk_mb": resources.disk_mb,
        "container": resources.container,
        "platforms": list(resources.platforms),
        "tags": list(resources.tags),
        "required_tags": list(resources.required_tags),
    }


def _wall_time_s(told_s: int | None, usable_s: float | None) -> int | None:
    """Return the length of the slot; one that is as long as was told is so, though its end must be kept free."""
    if usable_s is None:
        return told_s
    if told_s is not None and told_s <= usable_s + min(MARGIN_S, told_s * MARGIN) + _starting_s(told_s):
        return told_s
    return max(0, int(usable_s))


def _cpu_time_s(told_s: int | None, wall_time_s: int | None, *, speed: float) -> int:
    """Return the reference-core seconds of the slot: as was told, unless this node cannot do them in its time.

    By less than the error of the benchmark it always can, or a queue just as long as a CPU segment would now and then
    take no job of that segment.
    """
    if wall_time_s is None:
        return told_s or UNLIMITED_CPU_TIME_S
    done_s = wall_time_s * speed
    return told_s if told_s is not None and told_s * (1 - ERROR) <= done_s else int(done_s)


def _memory_mb(told_mb: int | None, allocation: Allocation, node: NodeReport, *, part: float) -> int:
    """Return the memory of the slot; of a node of which nobody says anything, this *part*."""
    if told_mb is None:
        return _least(int((node.memory_mb or 0.0) * part), allocation.memory_mb)
    if node.memory_mb is None or node.memory_mb >= told_mb * (1 - MEMORY_TOLERANCE):
        return _least(told_mb, allocation.memory_mb)
    return _least(told_mb, allocation.memory_mb, int(node.memory_mb))


def _starting_s(wall_time_s: float) -> float:
    return max(wall_time_s * TOLERANCE, STARTING_S)


def _least(told: int, *others: int | None) -> int:
    """Return the smallest of those that are told."""
    return min([told, *(other for other in others if other is not None)])


def _at_most(promised: int | None, found: int) -> int | None:
    return None if promised is None else min(promised, found)


def _first(*amounts: int | None) -> int:
    """Return the first that is told."""
    return next(amount for amount in amounts if amount is not None)


def _unique(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({each for one in lists for each in one}))
