"""Presentation of the page of one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

from matching.queries.explain.condition_texts import counted
from wms.jobs.domain.description import FIELDS, JobDescription, as_json
from wms.jobs.models import Job, JobHistory
from wms.kernel.amounts import AMOUNTS
from wms.portal.presentation.job_list import Button, JobRow, buttons_of, row_of
from wms.portal.presentation.statuses import Fact, Moment, badge_of, in_words

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
class HistoryRow:
    """One line of a job's history."""

    at: datetime
    status: str
    badge: str
    minor_status: str
    application_status: str
    source: str


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
