"""What the pilot offers with each request for a job: what is left of its slot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from uuid import uuid4

from pilots.agent.configuration import Place
from pilots.agent.fields import Record
from pilots.agent.node import NodeReport
from pilots.agent.options import Options

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
#: With less a slot is as good as over.
MIN_CPU_TIME_S = 10


@dataclass(frozen=True)
class Resources:
    """Of the whole slot."""

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

    def cpu_left_s(self, elapsed_s: float) -> int:
        """Return the CPU time per core that is left *elapsed_s* after the start; negative when it is over."""
        wall_time_s = self.wall_time_s or math.inf
        if elapsed_s <= min(self.cpu_time_s * TOLERANCE, _starting_s(wall_time_s)):
            return self.cpu_time_s
        # A slot that gives more CPU time than it lasts is on a machine that is faster than the reference.
        pace = max(1.0, self.cpu_time_s / wall_time_s)
        return int(self.cpu_time_s - elapsed_s * pace)

    def wall_left_s(self, elapsed_s: float) -> int | None:
        """Return the wall-clock time that is left *elapsed_s* after the start; None: nobody told."""
        if self.wall_time_s is None or elapsed_s <= _starting_s(self.wall_time_s):
            return self.wall_time_s
        return max(0, int(self.wall_time_s - elapsed_s))

    def payload_wall_s(self, elapsed_s: float, *, asked_s: int) -> float:
        """Return how long the slot lets a payload run.

        Args:
            elapsed_s: since the start of the slot.
            asked_s: by the payload's job; 0: it says nothing.
        """
        if self.wall_time_s is not None:
            return self.wall_time_s - elapsed_s
        # The job's own word goes before a guess.
        return max(self.cpu_time_s * WALL_FACTOR - elapsed_s, asked_s)


def resources_of(options: Options, place: Place, node: NodeReport) -> Resources:
    """Return the slot's resources: by the command line, else by the server's word on the queue, else by the node.

    Of GPUs, disk and containers nothing is offered that the node does not have, whatever the server says.
    """
    cpu_time_s = options.cpu_time_s or place.cpu_time_s or UNLIMITED_CPU_TIME_S
    processors = options.processors or place.processors or 1
    memory_mb = options.memory_mb or place.memory_mb
    if memory_mb is None:
        share = (node.memory_mb or 0.0) * min(1.0, processors / node.processors)
        memory_mb = int(share)
    free_mb = min(int(node.disk_mb or 0.0), MOST_DISK_MB)
    disk_share_mb = int(free_mb * min(1.0, processors / node.processors))
    return Resources(
        cpu_time_s=cpu_time_s,
        wall_time_s=options.wall_time_s or place.wall_time_s,
        processors=processors,
        memory_mb=memory_mb,
        gpus=_first(options.gpus, _at_most(place.gpus, len(node.gpus)), len(node.gpus)),
        disk_mb=_first(options.disk_mb, _at_most(place.disk_mb, free_mb), disk_share_mb),
        container=node.container_runtime is not None and place.container is not False,
        platforms=options.platforms or place.platforms or (node.platform,),
        tags=_unique(options.tags or place.tags, options.required_tags or place.required_tags),
        required_tags=options.required_tags or place.required_tags,
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


def _starting_s(wall_time_s: float) -> float:
    return max(wall_time_s * TOLERANCE, STARTING_S)


def _at_most(promised: int | None, found: int) -> int | None:
    return None if promised is None else min(promised, found)


def _first(*amounts: int | None) -> int:
    """Return the first that is told."""
    return next(amount for amount in amounts if amount is not None)


def _unique(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({each for one in lists for each in one}))
