"""Presentation of lists of jobs: rows, counts by status, and buttons of actions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.actions import Action
from wms.jobs.domain.lifecycle import JobStatus, sources_of
from wms.jobs.models import Job
from wms.jobs.queries import Tally
from wms.portal.presentation.statuses import badge_of

_POSSIBLE_FROM: Final[Mapping[Action, frozenset[JobStatus]]] = MappingProxyType(
    {
        Action.KILL: sources_of(JobStatus.KILLED),
        Action.HOLD: sources_of(JobStatus.HELD),
        Action.RELEASE: frozenset({JobStatus.HELD}),
        Action.RESCHEDULE: sources_of(JobStatus.RESCHEDULED),
        Action.DELETE: sources_of(JobStatus.DELETED),
    }
)
#: Actions that cannot be undone.
_FINAL_ACTIONS: Final = frozenset({Action.KILL, Action.DELETE})
DONE_WORDS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.KILL: "killed",
        Action.HOLD: "held",
        Action.RELEASE: "released",
        Action.RESCHEDULE: "rescheduled",
        Action.DELETE: "deleted",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One action that the job's status allows."""

    action: str
    label: str
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job in a list."""

    id: int
    name: str
    status: str
    badge: str
    minor_status: str
    owner: str
    group: str
    site: str
    submitted_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of jobs of a list with one status, and the query string that shows them."""

    status: str
    badge: str
    count: int
    query: str
    is_chosen: bool


def row_of(job: Job) -> JobRow:
    """Return the row of *job* in a list."""
    return JobRow(
        id=job.pk,
        name=job.job_name,
        status=job.status,
        badge=badge_of(job.status),
        minor_status=job.minor_status,
        owner=job.owner.username,
        group=job.group.name,
        site=job.site.name if job.site else "",
        submitted_at=job.submitted_at,
        changed_at=job.status_changed_at,
    )


def counts_of(tallies: Sequence[Tally], *, chosen: str, queries: Mapping[str, str]) -> list[Count]:
    """Return the counts in the order of the statuses.

    Args:
        tallies: by status.
        chosen: status by which the list is filtered; empty: none.
        queries: {status: query string of the list with that status}.
    """
    count_of = {tally.values["status"]: tally.count for tally in tallies}
    return [
        Count(
            status=status,
            badge=badge_of(status),
            count=count_of[status],
            query=queries[status],
            is_chosen=status == chosen,
        )
        for status in JobStatus
        if status in count_of
    ]


def buttons_of(job: Job) -> list[Button]:
    """Return the buttons of the actions that the job's status allows."""
    return [
        Button(action=action, label=action.capitalize(), is_final=action in _FINAL_ACTIONS)
        for action, sources in _POSSIBLE_FROM.items()
        if job.status in sources
    ]


def all_buttons() -> list[Button]:
    """Return the buttons of all actions, for many jobs at once."""
    return [
        Button(action=action, label=action.capitalize(), is_final=action in _FINAL_ACTIONS) for action in _POSSIBLE_FROM
    ]
