"""What the pilot offers with each request for a job: what is left of its slot."""

from __future__ import annotations

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
#: Wall-clock time of a slot over its CPU time, as batch queues are usually made: payloads also wait for files.
WALL_FACTOR = 1.5
#: With less a slot is as good as over.
MIN_CPU_TIME_S = 10


@dataclass(frozen=True)
class Resources:
    """Of the whole slot."""

    cpu_time_s: int
    wall_time_s: float
    processors: int
    memory_mb: int
    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    required_tags: tuple[str, ...]

    def cpu_left_s(self, elapsed_s: float) -> int:
        """Return the CPU time per core that is left *elapsed_s* after the start; negative when it is over."""
        if elapsed_s <= self.cpu_time_s * TOLERANCE:
            return self.cpu_time_s
        return int(self.cpu_time_s - elapsed_s)

    def wall_left_s(self, elapsed_s: float) -> float:
        """Return how long a payload may still run."""
        return self.wall_time_s - elapsed_s


def resources_of(options: Options, place: Place, node: NodeReport) -> Resources:
    """Return the slot's resources: by the command line, else by the server's word on the queue, else by the node."""
    cpu_time_s = options.cpu_time_s or place.cpu_time_s or UNLIMITED_CPU_TIME_S
    processors = options.processors or place.processors or 1
    memory_mb = options.memory_mb or place.memory_mb
    if memory_mb is None:
        share = (node.memory_mb or 0.0) * min(1.0, processors / node.processors)
        memory_mb = int(share)
    return Resources(
        cpu_time_s=cpu_time_s,
        wall_time_s=options.wall_time_s or cpu_time_s * WALL_FACTOR,
        processors=processors,
        memory_mb=memory_mb,
        platforms=options.platforms or place.platforms or (node.platform,),
        tags=_unique(options.tags or place.tags, options.required_tags or place.required_tags),
        required_tags=options.required_tags or place.required_tags,
    )


def offer_of(resources: Resources, *, elapsed_s: float) -> Record:
    """Return the body of POST /api/matches/; its ``request_id`` is new, and to be sent again until it is answered."""
    return {
        "request_id": str(uuid4()),
        "cpu_time_s": resources.cpu_left_s(elapsed_s),
        "processors": resources.processors,
        "memory_mb": resources.memory_mb,
        "platforms": list(resources.platforms),
        "tags": list(resources.tags),
        "required_tags": list(resources.required_tags),
    }


def _unique(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({each for one in lists for each in one}))
