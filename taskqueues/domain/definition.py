"""The definition of a task queue: canonical requirements of its jobs, and their signature (TQM)."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final

import msgspec

from wms.kernel.errors import RejectedError
from wms.kernel.names import composed
from wms.wire.amounts import RequiredAmounts


class NoSiteLeftError(RejectedError):
    """The job bans every site that it names."""

    code = "no_site_left"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRequirements(RequiredAmounts):
    """The requirements that a job description states, and its task queue keeps; an empty list accepts anything."""

    #: Reference-core CPU seconds per core.
    cpu_time_s: int
    job_type: str
    submit_pools: tuple[str, ...] = ()
    pilot_types: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    grid_ces: tuple[str, ...] = ()
    grid_middlewares: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    #: Paths, commands and names of software. If some queue publishes one, it must be published where the jobs run (ADR
    #: 34).
    software: tuple[str, ...] = ()


#: Names of the requirements that are lists.
LISTS: Final = tuple(field.name for field in fields(StatedRequirements) if field.default == ())
_STATED: Final = tuple(field.name for field in fields(StatedRequirements))
_stated_by = attrgetter(*_STATED)


def stated_by(owner: StatedRequirements) -> dict[str, Any]:
    """Return the stated requirements of *owner* by name, without the fields that its class adds."""
    return dict(zip(_STATED, _stated_by(owner), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequirements(StatedRequirements):
    """All requirements of a job, as they are stated; jobs with equal ones share a task queue.

    They are those of its description, but sites without its input data are left out.
    """

    owner_id: int
    group_id: int
    vo_id: int
    setup: str
    #: Whether a container runtime is required. Not the image, which would split task queues that any slot serves alike.
    container: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDefinition(JobRequirements):
    """The requirements of a task queue in canonical form; jobs with equal definitions share one task queue.

    Lists are sorted and unique. Made by ``define``.

    NB: the default of an added field must mean "no requirement"; it is then no part of the signature, and existing task
    queues keep theirs.
    """

    @classmethod
    def of_columns(cls, columns: Mapping[str, object]) -> "QueueDefinition":
        """Return the definition in the columns of a row."""
        return msgspec.convert(columns, cls)

    def signature(self) -> bytes:
        """Return the SHA-256 by which the database keeps one task queue for each definition."""
        stated = {name: value for name, value in self.columns().items() if value != _UNSIGNED.get(name, MISSING)}
        return sha256(json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()).digest()

    def columns(self) -> dict[str, object]:
        """Return all fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


#: Requirements of the first version; the signature always contains them.
_ALWAYS_SIGNED: Final = frozenset(
    {
        *("owner_id", "group_id", "vo_id", "setup", "cpu_time_s", "submit_pools", "pilot_types", "sites"),
        *("banned_sites", "grid_ces", "grid_middlewares", "platforms", "job_type", "tags", "processors", "memory_mb"),
    }
)
#: {field: its default, which the signature leaves out}.
_UNSIGNED: Final = {field.name: field.default for field in fields(QueueDefinition) if field.name not in _ALWAYS_SIGNED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """The steps to which CPU time and amounts are rounded up: similar jobs share a task queue."""

    cpu_segments_s: Sequence[int]
    #: {amount: its step}; others are not rounded.
    steps: Mapping[str, int]


def define(requirements: JobRequirements, *, rounding: Rounding) -> QueueDefinition:
    """Return the canonical definition of the task queue for a job with these requirements.

    CPU time is rounded up to a segment and amounts to their steps; lists are sorted, and banned sites are taken out of
    a list of sites.

    Raises:
        NoSiteLeftError: sites are named and all of them are banned.

    Source: TQM, "Task Queue Requirements"; docs/architecture.md, Task queues.
    """
    named, banned = frozenset(requirements.sites), frozenset(requirements.banned_sites)
    if named and not named - banned:
        raise NoSiteLeftError(
            "The job bans every site that it names; name another site or remove one from banned_sites.",
            errors={"banned_sites": ["These ban every site that the job names."]},
        )
    stated = {field.name: getattr(requirements, field.name) for field in fields(requirements)}
    lists = {name: _sorted(value) for name, value in stated.items() if name in LISTS}
    rounded = {name: in_steps(stated[name], step=step) for name, step in rounding.steps.items()}
    changed = {
        "cpu_time_s": cpu_segment_s(requirements.cpu_time_s, segments_s=rounding.cpu_segments_s),
        "setup": composed(requirements.setup),
        "job_type": composed(requirements.job_type),
        "sites": _sorted(named - banned),
        # With a list of sites the bans are already applied: kept, they would split equal task queues.
        "banned_sites": () if named else _sorted(banned),
    }
    return QueueDefinition(**{**stated, **lists, **rounded, **changed})


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    # Composed (NFC): descriptions stored by earlier versions may be decomposed.
    return tuple(sorted(frozenset(map(composed, values))))


def cpu_segment_s(cpu_time_s: int, *, segments_s: Sequence[int]) -> int:
    """Return the smallest segment that contains *cpu_time_s*; above the last one, the last.

    Args:
        cpu_time_s: reference-core CPU seconds per core, ≥ 0.
        segments_s: ascending, at least one.

    Source: TQM, "Task Queue Implementation".
    """
    return segments_s[min(bisect_left(segments_s, cpu_time_s), len(segments_s) - 1)]


def in_steps(amount: int, *, step: int) -> int:
    """Return *amount* rounded up to a whole number of steps, both in the same unit; 0 (no requirement) stays 0."""
    return -(-amount // step) * step
