"""Presentation of jobs: texts, badges and buttons are chosen here, not in templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

from matching.queries.explain.condition_texts import counted
from matching.queries.explain.explanation import Explanation
from wms.jobs.domain.actions import Action
from wms.jobs.domain.description import FIELDS, JobDescription, as_json
from wms.jobs.domain.lifecycle import JobStatus, sources_of
from wms.jobs.models import Job, JobHistory
from wms.jobs.queries import Tally
from wms.kernel.amounts import AMOUNTS

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

_DEFAULTS: Final = as_json(JobDescription(executable=""))
#: Labels of the API's fields, with their units.
_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu_time_s": "CPU time (s per core)",
        **{amount.name: f"{amount.label} ({amount.unit})" if amount.unit else amount.label for amount in AMOUNTS},
        "stalled_s": "Stalled after (s)",
        "stalled_cpu_fraction": "Stalled below (part of a core)",
        "grid_ces": "Computing elements",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One property of a job or a pilot; an empty value: unknown yet."""

    label: str
    value: str
    #: Link to more about it; empty: no page that the user may see.
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One line of a job's history."""

    at: datetime
    status: str
    badge: str
    minor_status: str
    application_status: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The time of an event of a job or a pilot."""

    label: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One job on its own page."""

    row: JobRow
    application_status: str
    buttons: Sequence[Button]
    facts: Sequence[Fact]
    usage: Sequence[Fact]
    moments: Sequence[Moment]
    asked_for: Sequence[Fact]
    history: Sequence[HistoryRow]
    std_output_tail: str
    reported_at: datetime | None
    has_output: bool
    submission: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurdle:
    """The result of one condition of the match."""

    name: str
    #: Queues that satisfy it, such as "3 of 20".
    passed: str
    #: Style of its badge: no queue, some or all.
    badge: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """The explanation why a job waits."""

    summary: str
    #: Without the one in the summary.
    warnings: Sequence[str]
    hurdles: Sequence[Hurdle]


def badge_of(status: str) -> str:
    """Return the style of a status's badge."""
    return BADGES.get(status, "killed")


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


def job_view(job: Job, *, history: Sequence[JobHistory], task_queue_id: int | None, pilot: Fact) -> JobPage:
    """Return the page of *job*.

    Args:
        job: with its related rows.
        history: its changes, oldest first.
        task_queue_id: the task queue in which it waits; None: none.
        pilot: the pilot that runs it or ran it last.
    """
    return JobPage(
        row=row_of(job),
        application_status=job.application_status,
        buttons=buttons_of(job),
        facts=_facts(job, task_queue_id, pilot),
        usage=_usage(job),
        moments=_moments(job),
        asked_for=_asked_for(job.description),
        history=[_change(change) for change in history],
        std_output_tail=job.std_output_tail,
        reported_at=job.heartbeat_at,
        has_output=job.output_sandbox_id is not None,
        submission=job.submission_id,
    )


def why_view(explained: Explanation) -> WhyView:
    """Return the explanation for the page of a waiting job."""
    return WhyView(
        summary=explained.summary,
        warnings=[warning for warning in explained.warnings if warning != explained.summary],
        hurdles=[
            Hurdle(
                name=condition.name.replace("_", " "),
                passed=f"{condition.passed_queues} of {condition.passed_queues + condition.failed_queues}",
                badge=_look_of(condition.passed_queues, condition.failed_queues),
                detail=condition.detail,
            )
            for condition in explained.conditions
        ],
    )


def _look_of(passed: int, failed: int) -> str:
    if not passed:
        return "failed"
    return "held" if failed else "done"


def _facts(job: Job, task_queue_id: int | None, pilot: Fact) -> list[Fact]:
    place = [part for part in (job.queue and job.queue.ce.name, job.queue and job.queue.name) if part]
    return [
        Fact(label="Owner", value=job.owner.username),
        Fact(label="Group", value=f"{job.group.name} ({job.vo.name})"),
        Fact(label="Site", value=job.site.name if job.site else ""),
        Fact(label="CE and queue", value=" / ".join(place)),
        pilot,
        Fact(label="Task queue", value=_text(task_queue_id)),
        *_input_data(job),
        Fact(label="Rescheduled", value=counted(job.reschedules, "time") if job.reschedules else ""),
        Fact(label="Exit code", value=_text(job.exit_code)),
    ]


def _input_data(job: Job) -> list[Fact]:
    """Return the sites that held all of the job's input data when it was last put into a queue, or was not."""
    if job.input_sites is None:
        return []
    return [Fact(label="Sites with its input data", value=in_words(job.input_sites) or "none")]


def _usage(job: Job) -> list[Fact]:
    used = (
        ("CPU time", job.cpu_s, "s"),
        ("Wall time", job.wall_s, "s"),
        ("Memory, highest", job.max_memory_mb, "MB"),
        ("Disk, highest", job.max_disk_mb, "MB"),
    )
    return [Fact(label=label, value=f"{value:,.1f} {unit}") for label, value, unit in used if value is not None]


def _moments(job: Job) -> list[Moment]:
    moments = (
        ("Submitted", job.submitted_at),
        ("Matched", job.matched_at),
        ("Started", job.started_at),
        ("Last heartbeat", job.heartbeat_at),
        ("Ended", job.ended_at),
    )
    return [Moment(label=label, at=at) for label, at in moments if at is not None]


def _asked_for(description: Mapping[str, object]) -> list[Fact]:
    """Return the fields of a description that differ from their defaults, in the order of the API."""
    return [
        Fact(label=_LABELS.get(field, field.replace("_", " ").capitalize()), value=in_words(description[field]))
        for field in FIELDS
        if field in description and description[field] != _DEFAULTS[field]
    ]


def in_words(value: object) -> str:
    """Return a JSON value as text: records line by line, lists with commas."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name} = {in_words(of_name)}" for name, of_name in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _change(change: JobHistory) -> HistoryRow:
    return HistoryRow(
        at=change.changed_at,
        status=change.status,
        badge=badge_of(change.status),
        minor_status=change.minor_status,
        application_status=change.application_status,
        source=change.source,
    )
