"""Columns of the list of jobs, of which the reader chooses some."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from wms.jobs.models import Job


class CellKind(StrEnum):
    """Ways to show a cell."""

    TEXT = "text"
    WHY = "why"
    NUMBER = "number"
    DURATION = "duration"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    name: str
    label: str
    kind: CellKind
    read: Callable[[Job], object]
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The value of one job in a column; None or an empty text: it has none."""

    label: str
    kind: CellKind
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChoice:
    """A column in the menu of columns."""

    name: str
    label: str
    is_chosen: bool


def _column(
    label: str,
    read: Callable[[Job], object],
    kind: CellKind = CellKind.TEXT,
    *,
    is_default: bool = False,
) -> Column:
    name = label.lower().replace(" ", "-")
    return Column(name=name, label=label, kind=kind, read=read, is_default=is_default)


#: By name, in the order of the list; id and status are always shown.
COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        column.name: column
        for column in (
            _column("Name", lambda job: job.job_name, is_default=True),
            _column("Why", lambda job: job.minor_status, CellKind.WHY, is_default=True),
            _column("Application status", lambda job: job.application_status, CellKind.WHY),
            _column("Owner", lambda job: job.owner.username, is_default=True),
            _column("Group", lambda job: job.group.name, is_default=True),
            _column("VO", lambda job: job.vo.name),
            _column("Site", lambda job: job.site.name if job.site else "", is_default=True),
            _column("CE", lambda job: job.queue.ce.name if job.queue else ""),
            _column("Queue", lambda job: job.queue.name if job.queue else ""),
            _column("Type", lambda job: job.job_type),
            _column("Label", lambda job: job.job_group),
            _column("Priority", lambda job: job.priority, CellKind.NUMBER),
            _column("Exit code", lambda job: job.exit_code, CellKind.NUMBER),
            _column("CPU time", lambda job: job.cpu_s, CellKind.DURATION),
            _column("Wall time", lambda job: job.wall_s, CellKind.DURATION),
            _column("Memory MB", lambda job: _rounded(job.max_memory_mb), CellKind.NUMBER),
            _column("Reschedules", lambda job: job.reschedules, CellKind.NUMBER),
            _column("Submitted", lambda job: job.submitted_at, CellKind.TIME, is_default=True),
            _column("Started", lambda job: job.started_at, CellKind.TIME),
            _column("Ended", lambda job: job.ended_at, CellKind.TIME),
            _column("Changed", lambda job: job.status_changed_at, CellKind.TIME, is_default=True),
        )
    }
)


#: Columns that say nothing in a list of the reader's own jobs, until they are chosen.
_OF_OTHERS: Final = frozenset({"owner", "group"})


def columns_named(names: Iterable[str], *, are_own: bool) -> Sequence[Column]:
    """Return the columns of these names in the order of the list; without a known name, the default ones.

    Args:
        names: of columns.
        are_own: whether all jobs of the list are the reader's own.
    """
    named = frozenset(names)
    default = [column for column in COLUMNS.values() if column.is_default]
    return [column for column in COLUMNS.values() if column.name in named] or [
        column for column in default if not (are_own and column.name in _OF_OTHERS)
    ]


def with_content(columns: Sequence[Column], jobs: Iterable[Job]) -> Sequence[Column]:
    """Leave out the column Why where no job has a reason: it would take the room of the others."""
    has_reasons = any(job.minor_status for job in jobs)
    return columns if has_reasons else [column for column in columns if column.kind is not CellKind.WHY]


def choices_of(chosen: Sequence[Column]) -> Sequence[ColumnChoice]:
    """Return the menu of columns."""
    return [
        ColumnChoice(name=column.name, label=column.label, is_chosen=column in chosen) for column in COLUMNS.values()
    ]


def cells_of(job: Job, columns: Sequence[Column]) -> Sequence[Cell]:
    """Return the values of *job* in the columns."""
    return [Cell(label=column.label, kind=column.kind, value=column.read(job)) for column in columns]


def _rounded(number: float | None) -> int | None:
    return None if number is None else round(number)
