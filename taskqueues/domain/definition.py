"""The definition of a task queue: canonical requirements of its jobs, and their signature (TQM)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from hashlib import sha256

from taskqueues.domain.rounding import cpu_segment_s, in_steps
from wms.kernel.errors import RejectedError
from wms.kernel.names import composed


class NoSiteLeftError(RejectedError):
    """The job bans every site that it names."""

    code = "no_site_left"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDefinition:
    """The requirements of a task queue in canonical form; jobs with equal definitions share one task queue.

    Lists are sorted and unique; an empty one accepts anything. Made by ``define``.

    NB: the default of an added field must mean "no requirement"; it is then no part of the signature, and existing task
    queues keep theirs.
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
    wall_time_s: int = 0
    gpus: int = 0
    disk_mb: int = 0
    #: Whether a container runtime is required. Not the image, which would split task queues that any slot serves alike.
    container: bool = False
    #: Paths, commands and names of software. If some queue publishes one, it must be published where the jobs run (ADR
    #: 34).
    software: tuple[str, ...] = ()

    def signature(self) -> bytes:
        """Return the SHA-256 by which the database keeps one task queue for each definition."""
        columns = self.columns()
        stated = {name: value for name, value in columns.items() if value != _DEFAULTS.get(name, MISSING)}
        return sha256(json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()).digest()

    def columns(self) -> dict[str, object]:
        """Return all fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


#: {field: its default}, of fields that have one; the default means no requirement.
_DEFAULTS = {field.name: field.default for field in fields(QueueDefinition) if field.default is not MISSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """The steps to which CPU time, memory, wall-clock time and disk are rounded up: similar jobs share a task queue."""

    cpu_segments_s: Sequence[int]
    memory_step_mb: int
    wall_time_step_s: int
    disk_step_mb: int


def define(  # noqa: PLR0913 - a definition has as many parts as TQM gives it
    *,
    owner_id: int,
    group_id: int,
    vo_id: int,
    setup: str,
    cpu_time_s: int,
    rounding: Rounding,
    submit_pools: Iterable[str] = (),
    pilot_types: Iterable[str] = (),
    sites: Iterable[str] = (),
    banned_sites: Iterable[str] = (),
    grid_ces: Iterable[str] = (),
    grid_middlewares: Iterable[str] = (),
    platforms: Iterable[str] = (),
    job_type: str,
    tags: Iterable[str] = (),
    processors: int = 1,
    memory_mb: int = 0,
    wall_time_s: int = 0,
    gpus: int = 0,
    disk_mb: int = 0,
    container: bool = False,
    software: Iterable[str] = (),
) -> QueueDefinition:
    """Return the canonical definition of the task queue for a job with these requirements.

    Args:
        cpu_time_s: reference-core CPU seconds per core; rounded up to a segment.
        memory_mb, wall_time_s, disk_mb: rounded up to a step; 0: no requirement.
        rounding: the segments and the steps.
        owner_id, group_id, vo_id, setup, job_type, processors, gpus: compared as they are.
        container: whether the job runs in a container.
        submit_pools, pilot_types, sites, banned_sites, grid_ces, grid_middlewares, platforms, tags, software: in any
            order.

    Raises:
        NoSiteLeftError: sites are named and all of them are banned.

    Source: TQM, "Task Queue Requirements"; docs/architecture.md, Task queues.
    """
    named, banned = frozenset(sites), frozenset(banned_sites)
    if named and not named - banned:
        raise NoSiteLeftError(
            "The job bans every site that it names; name another site or remove one from banned_sites.",
            errors={"banned_sites": ["These ban every site that the job names."]},
        )
    return QueueDefinition(
        owner_id=owner_id,
        group_id=group_id,
        vo_id=vo_id,
        setup=composed(setup),
        cpu_time_s=cpu_segment_s(cpu_time_s, segments_s=rounding.cpu_segments_s),
        submit_pools=_sorted(submit_pools),
        pilot_types=_sorted(pilot_types),
        sites=_sorted(named - banned),
        # With a list of sites the bans are already applied: kept, they would split equal task queues.
        banned_sites=() if named else _sorted(banned),
        grid_ces=_sorted(grid_ces),
        grid_middlewares=_sorted(grid_middlewares),
        platforms=_sorted(platforms),
        job_type=composed(job_type),
        tags=_sorted(tags),
        processors=processors,
        memory_mb=in_steps(memory_mb, step=rounding.memory_step_mb),
        wall_time_s=in_steps(wall_time_s, step=rounding.wall_time_step_s),
        gpus=gpus,
        disk_mb=in_steps(disk_mb, step=rounding.disk_step_mb),
        container=container,
        software=_sorted(software),
    )


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    # Composed (NFC): descriptions stored by earlier versions may be decomposed.
    return tuple(sorted(frozenset(map(composed, values))))
