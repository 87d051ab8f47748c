"""Parts of all pages about jobs and pilots: badges of statuses, facts, and times of events."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.lifecycle import JobStatus

#: {status: style of its badge}; the badge also shows the status as text.
BADGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        JobStatus.RECEIVED: "waiting",
        JobStatus.CHECKING: "waiting",
        JobStatus.WAITING: "waiting",
        JobStatus.HELD: "held",
        JobStatus.MATCHED: "running",
        JobStatus.RUNNING: "running",
        JobStatus.COMPLETING: "running",
        JobStatus.STALLED: "held",
        JobStatus.RESCHEDULED: "waiting",
        JobStatus.DONE: "done",
        JobStatus.FAILED: "failed",
        JobStatus.KILLED: "killed",
        JobStatus.DELETED: "killed",
    }
)

#: {status: icon of its badge}, so that no status is told by colour alone.
ICONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        JobStatus.RECEIVED: "package",
        JobStatus.CHECKING: "search",
        JobStatus.WAITING: "clock",
        JobStatus.HELD: "pause",
        JobStatus.MATCHED: "link",
        JobStatus.RUNNING: "loader",
        JobStatus.COMPLETING: "upload",
        JobStatus.STALLED: "hourglass",
        JobStatus.RESCHEDULED: "rotate-ccw",
        JobStatus.DONE: "circle-check",
        JobStatus.FAILED: "circle-x",
        JobStatus.KILLED: "octagon-x",
        JobStatus.DELETED: "trash-2",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a bar: as many jobs of one kind."""

    #: Style, as of BADGES.
    kind: str
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One property of a job or a pilot; an empty value: unknown yet."""

    label: str
    value: str
    #: Link to more about it; empty: no page that the user may see.
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The time of an event of a job or a pilot."""

    label: str
    at: datetime


def badge_of(status: str) -> str:
    """Return the style of a status's badge."""
    return BADGES.get(status, "killed")


def icon_of(status: str) -> str:
    """Return the icon of a status's badge."""
    return ICONS.get(status, "circle-dot")


def in_words(value: object) -> str:
    """Return a JSON value as text: records line by line, lists with commas."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name} = {in_words(of_name)}" for name, of_name in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
