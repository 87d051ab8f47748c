"""The tabs of a job's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries.failures import is_told_by_output


class Tab(StrEnum):
    """One tab, as its address names it."""

    OUTPUT = "output"
    ERRORS = "errors"
    FILES = "files"
    WHY = "why"
    RESOURCES = "resources"
    DESCRIPTION = "description"
    HISTORY = "history"
    PILOT = "pilot"


_LABELS: Final[Mapping[Tab, str]] = MappingProxyType(
    {**{tab: tab.capitalize() for tab in Tab}, Tab.PILOT: "Log of its pilot"}
)
#: Statuses of jobs that have not been started, or will be again: what matters is why.
_NOT_STARTED: Final = frozenset(
    {JobStatus.RECEIVED, JobStatus.CHECKING, JobStatus.WAITING, JobStatus.HELD, JobStatus.RESCHEDULED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabLink:
    """The link to one tab."""

    tab: Tab
    label: str
    is_chosen: bool


def tab_named(name: str, *, job: Job) -> Tab:
    """Return the tab of this name, or else the one that matters most; of a failed job the stream that tells why."""
    if name in set(Tab):
        return Tab(name)
    if job.status in _NOT_STARTED:
        return Tab.WHY
    return Tab.ERRORS if job.status == JobStatus.FAILED and not is_told_by_output(job) else Tab.OUTPUT


def tab_links(chosen: Tab) -> Sequence[TabLink]:
    """Return the links to all tabs, in their order."""
    return [TabLink(tab=tab, label=_LABELS[tab], is_chosen=tab is chosen) for tab in Tab]
