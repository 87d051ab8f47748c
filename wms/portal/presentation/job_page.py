"""Presentation of the page of one job: what is around its tabs, and the short tabs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.urls import reverse

from matching.services.retrying import RETRIED
from pilots.queries import KeptLog
from wms.jobs.domain.description import FIELDS, JobDescription, as_json
from wms.jobs.domain.lifecycle import LEASED, Action, JobStatus
from wms.jobs.models import Job, JobHistory
from wms.kernel.names import counted
from wms.portal.presentation.job_list import Button, JobRow, buttons_of, row_of
from wms.portal.presentation.job_sentence import Sentence
from wms.portal.presentation.job_tabs import Tab, TabLink, tab_links
from wms.portal.presentation.job_timeline import AttemptView
from wms.portal.presentation.statuses import Fact, badge_of, in_words
from wms.portal.search import EVERYBODY, query_of
from wms.wire.amounts import AMOUNTS

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
class Confirmation:
    """The question that precedes an action that cannot be undone."""

    button: Button
    question: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One job on its own page: what is around the tabs."""

    row: JobRow
    sentence: Sentence
    application_status: str
    buttons: Sequence[Button]
    #: Of those buttons, the ones that act at once, and those that ask first.
    direct: Sequence[Button]
    confirmed: Sequence[Confirmation]
    facts: Sequence[Fact]
    timeline: Sequence[AttemptView]
    tabs: Sequence[TabLink]
    has_output: bool
    submission: UUID
    #: Address of the form that retries it with changes; empty: it cannot be retried.
    retry_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionView:
    """The description of a job."""

    #: Fields that differ from their defaults, and the others.
    asked_for: Sequence[Fact]
    defaults: Sequence[Fact]
    #: All of it, as the REST interface takes it.
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOfPilot:
    """The log of the pilot that ran a job last."""

    #: With a link if the reader may see its page.
    pilot: Fact
    #: Newest lines; empty: none, or hidden.
    text: str
    changed_at: datetime | None
    #: Why there is no text.
    why_empty: str
    #: Address of the whole log; empty: none, or hidden.
    whole_url: str


def job_view(
    job: Job,
    *,
    task_queue_id: int | None,
    pilot: Fact,
    sentence: Sentence,
    timeline: Sequence[AttemptView],
    removed_after_days: Mapping[JobStatus, int],
    tab: Tab,
) -> JobPage:
    """Return what is around the tabs of *job*.

    Args:
        job: with the related rows of a list, and with its retries.
        task_queue_id: the task queue in which it waits; None: none.
        pilot: the pilot that runs it or ran it last.
        sentence: its state in words.
        timeline: its attempts.
        removed_after_days: {final status: age at which jobs of its VO are removed}.
        tab: the chosen tab.
    """
    buttons = buttons_of(job)
    return JobPage(
        row=row_of(job),
        sentence=sentence,
        application_status=job.application_status,
        buttons=buttons,
        direct=[button for button in buttons if not button.is_final],
        confirmed=[_confirmation(job, button) for button in buttons if button.is_final],
        facts=[*_facts(job, task_queue_id, pilot), *_retried(job), *_keeping(job, removed_after_days)],
        timeline=timeline,
        tabs=tab_links(tab),
        retry_url=_retry_url(job),
        has_output=job.output_sandbox_id is not None,
        submission=job.submission_id,
    )


def description_view(job: Job) -> DescriptionView:
    """Return the description of *job*, which has it loaded."""
    description = job.description
    known = [field for field in FIELDS if field in description]
    return DescriptionView(
        asked_for=[_field(name, description[name]) for name in known if description[name] != _DEFAULTS[name]],
        defaults=[_field(name, description[name]) for name in known if description[name] == _DEFAULTS[name]],
        json=json.dumps({name: description[name] for name in known}, indent=2, ensure_ascii=False),
    )


def history_rows(changes: Sequence[JobHistory]) -> Sequence[HistoryRow]:
    """Return the rows of a job's history."""
    return [_change(change) for change in changes]


def pilot_log_view(pilot: Fact, *, log: KeptLog | None) -> LogOfPilot:
    """Return the log of a job's pilot.

    Args:
        pilot: the pilot; of an empty value: the job has had none.
        log: None: the reader may not see it.
    """
    if not pilot.value:
        why_empty = "No pilot has had the job yet."
    elif log is None:
        why_empty = (
            "You may not see the log of this pilot: a pilot that runs jobs of several users is visible to the managers "
            "of its VO and to operators. What your own job wrote is in Output and Errors."
        )
    else:
        why_empty = "The pilot sent no log, or the log was removed."
    return LogOfPilot(
        pilot=pilot,
        text=log.text if log else "",
        changed_at=log.changed_at if log else None,
        why_empty=why_empty,
        whole_url=reverse("portal:pilot-whole-log", args=[log.pilot_id]) if log and log.text else "",
    )


def _confirmation(job: Job, button: Button) -> Confirmation:
    if button.action == Action.KILL:
        effect = "It ends and does not run again; what it has not stored yet is lost."
        if job.status not in LEASED:
            effect = "It leaves its queue and does not run."
    else:
        effect = "It leaves your lists, and its stored output is removed later."
    return Confirmation(button=button, question=f"{button.label} job {job.pk}?", effect=effect)


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


def _retried(job: Job) -> list[Fact]:
    related = {"Retries": vars(job)["predecessor"], "Retried as": vars(job)["successor"]}  # annotations
    return [
        Fact(label=label, value=f"job {pk}", url=reverse("portal:job", args=[pk]))
        for label, pk in related.items()
        if pk
    ]


def _retry_url(job: Job) -> str:
    if job.status not in RETRIED or vars(job)["successor"]:
        return ""
    return f"{reverse('portal:jobs-retry')}?{query_of(id=job.pk, owner=EVERYBODY)}"


def _keeping(job: Job, removed_after_days: Mapping[JobStatus, int]) -> list[Fact]:
    days = removed_after_days.get(JobStatus(job.status))
    if days is None or job.ended_at is None:
        return []
    return [Fact(label="Kept until", value=f"{job.ended_at + timedelta(days=days):%Y-%m-%d} ({counted(days, 'day')})")]


def _input_data(job: Job) -> list[Fact]:
    """Return the sites that held all of the job's input data when it was last put into a queue, or was not."""
    if job.input_sites is None:
        return []
    return [Fact(label="Sites with its input data", value=in_words(job.input_sites) or "none")]


def _field(name: str, value: object) -> Fact:
    return Fact(label=_LABELS.get(name, name.replace("_", " ").capitalize()), value=in_words(value))


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
