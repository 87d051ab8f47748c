"""Presentation of lists of jobs: rows, counts by status, buttons of actions, and the side table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.lifecycle import Action, JobStatus, sources_of
from wms.jobs.models import Job
from wms.jobs.queries import has_lost_output
from wms.jobs.queries.breakdown import Breakdown, Property
from wms.portal.presentation.columns import Cell, Column, cells_of
from wms.portal.presentation.statuses import badge_of

POSSIBLE_FROM: Final[Mapping[Action, frozenset[JobStatus]]] = MappingProxyType(
    {
        Action.KILL: sources_of(JobStatus.KILLED),
        Action.HOLD: sources_of(JobStatus.HELD),
        Action.RELEASE: frozenset({JobStatus.HELD}),
        Action.RESCHEDULE: sources_of(JobStatus.RESCHEDULED),
        Action.DELETE: sources_of(JobStatus.DELETED),
    }
)
#: Actions that cannot be undone.
FINAL_ACTIONS: Final = frozenset({Action.KILL, Action.DELETE})
DONE_WORDS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.KILL: "killed",
        Action.HOLD: "held",
        Action.RELEASE: "released",
        Action.RESCHEDULE: "rescheduled",
        Action.DELETE: "deleted",
    }
)
#: What an action does to jobs.
EFFECTS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.KILL: "Ends jobs that wait or run. They do not start again.",
        Action.HOLD: "Takes waiting jobs out of their task queue until they are released.",
        Action.RELEASE: "Returns held jobs to their task queue.",
        Action.RESCHEDULE: "Returns failed or running jobs to their task queue; they start again from the beginning.",
        Action.DELETE: "Removes jobs that have ended, wait or are held from lists. It cannot be undone.",
    }
)
#: Rows of the side table.
MOST_PARTS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One action that the job's status allows."""

    action: str
    label: str
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkButton:
    """One action on many jobs."""

    action: str
    label: str
    effect: str
    is_final: bool
    #: Number of the jobs of the whole list on which it is possible; None: not known exactly.
    possible: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job in a list."""

    id: int
    name: str
    status: str
    badge: str
    #: Done, and a part of its output is stored nowhere.
    has_lost_output: bool
    minor_status: str
    owner: str
    group: str
    site: str
    submitted_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRow:
    """One job in the list, with the columns that its reader has chosen."""

    id: int
    name: str
    status: str
    has_lost_output: bool
    cells: Sequence[Cell]
    #: The actions that its status allows, with blanks between them.
    allows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of jobs of a list with one status, and the query string that adds or removes the status."""

    status: str
    badge: str
    count: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The numbers of jobs of a list by status."""

    chips: Sequence[Count]
    #: Number of jobs of the list, all of its statuses or the chosen ones.
    total: int
    #: Whether all jobs were counted; otherwise the newest ones.
    is_whole: bool
    #: Number of jobs that were counted.
    counted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """One row of the side table; without a query string there is no list of these jobs."""

    label: str
    jobs: int
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTable:
    """The jobs of a list by one property."""

    title: str
    rows: Sequence[PartRow]
    #: Number of values that are not shown.
    more: int
    is_whole: bool
    counted: int


def row_of(job: Job) -> JobRow:
    """Return the row of *job* in a list."""
    return JobRow(
        id=job.pk,
        name=job.job_name,
        status=job.status,
        badge=badge_of(job.status),
        has_lost_output=has_lost_output(job),
        minor_status=job.minor_status,
        owner=job.owner.username,
        group=job.group.name,
        site=job.site.name if job.site else "",
        submitted_at=job.submitted_at,
        changed_at=job.status_changed_at,
    )


def listed_job_of(job: Job, columns: Sequence[Column]) -> ChosenRow:
    """Return the row of *job* in the list with these columns."""
    return ChosenRow(
        id=job.pk,
        name=job.job_name,
        status=job.status,
        has_lost_output=has_lost_output(job),
        cells=cells_of(job, columns),
        allows=" ".join(action for action, sources in POSSIBLE_FROM.items() if job.status in sources),
    )


def counts_of(found: Breakdown, *, chosen: Sequence[str], query_of_statuses: Callable[[str], str]) -> Counts:
    """Return the counts in the order of the statuses.

    Args:
        found: the jobs of the list in any status, by status.
        chosen: statuses by which the list is filtered; empty: none.
        query_of_statuses: the query string of the list with these statuses, written with commas.
    """
    jobs_of = {part.value: part.jobs for part in found.parts}
    chips = [
        Count(
            status=status,
            badge=badge_of(status),
            count=jobs_of.get(status, 0),
            query=query_of_statuses(",".join(_toggled(status, chosen))),
            is_chosen=status in chosen,
        )
        for status in JobStatus
        if status in jobs_of or status in chosen
    ]
    return Counts(
        chips=chips,
        total=sum(chip.count for chip in chips if chip.is_chosen or not chosen),
        is_whole=found.is_whole,
        counted=found.jobs,
    )


def _toggled(status: str, chosen: Sequence[str]) -> list[str]:
    return [each for each in JobStatus if (each in chosen) != (each == status)]


def bulk_buttons(counts: Counts) -> list[BulkButton]:
    """Return the buttons of all actions, for the jobs of a list."""
    listed = [chip for chip in counts.chips if chip.is_chosen or not any(each.is_chosen for each in counts.chips)]
    return [
        BulkButton(
            action=action,
            label=action.capitalize(),
            effect=EFFECTS[action],
            is_final=action in FINAL_ACTIONS,
            possible=sum(chip.count for chip in listed if chip.status in sources) if counts.is_whole else None,
        )
        for action, sources in POSSIBLE_FROM.items()
    ]


def side_table_of(
    found: Breakdown, each: Property, *, label_of: Mapping[str, str], query_of_value: Callable[[str], str]
) -> SideTable:
    """Return the side table.

    Args:
        found: the jobs of the list by the property.
        each: the property.
        label_of: {value: its label}; of others the value is the label.
        query_of_value: the query string of the jobs of the list with a value.
    """
    return SideTable(
        title=each.capitalize(),
        rows=[
            PartRow(
                label=label_of.get(part.value) or part.value or "none yet",
                jobs=part.jobs,
                query=query_of_value(part.value) if part.value else "",
            )
            for part in found.parts[:MOST_PARTS]
        ],
        more=max(len(found.parts) - MOST_PARTS, 0),
        is_whole=found.is_whole,
        counted=found.jobs,
    )


def buttons_of(job: Job) -> list[Button]:
    """Return the buttons of the actions that the job's status allows."""
    return [
        Button(action=action, label=action.capitalize(), is_final=action in FINAL_ACTIONS)
        for action, sources in POSSIBLE_FROM.items()
        if job.status in sources
    ]
