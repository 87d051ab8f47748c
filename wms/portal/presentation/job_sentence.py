"""The sentence at the head of a job's page: its present state, for how long, and where to read more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import has_lost_output
from wms.kernel.time_texts import duration
from wms.portal.presentation.job_tabs import Tab


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The state of a job in words."""

    text: str
    #: An event whose time follows the text, such as "last heartbeat"; empty: none.
    event: str = ""
    at: datetime | None = None
    #: The tab that tells more; None: the text says all.
    see: Tab | None = None


def sentence_of(job: Job, *, why: str, now: datetime) -> Sentence:
    """Return the state of *job*.

    Args:
        job: with its site.
        why: the summary of its explanation; empty unless it waits.
        now: the present time.
    """
    return _SENTENCES[JobStatus(job.status)](job, why, now)


def _waits(job: Job, why: str, now: datetime) -> Sentence:
    return Sentence(text=f"{job.status} for {_since(job.status_changed_at, now)}. {why}".strip())


def _held(job: Job, _why: str, now: datetime) -> Sentence:
    return Sentence(text=f"Held for {_since(job.status_changed_at, now)}{_reason(job)}. It waits again when released.")


def _matched(job: Job, _why: str, now: datetime) -> Sentence:
    return Sentence(text=f"Taken by a pilot{_place(job)} {_since(job.matched_at or job.status_changed_at, now)} ago.")


def _running(job: Job, _why: str, now: datetime) -> Sentence:
    text = f"Running{_place(job)} for {_since(job.started_at or job.status_changed_at, now)}"
    return Sentence(text=text, event="last heartbeat", at=job.heartbeat_at)


def _stalled(job: Job, _why: str, _now: datetime) -> Sentence:
    text = f"Stalled{_place(job)}: its pilot sends no heartbeats{_reason(job, ' (', ')')}; the job may wait again soon"
    return Sentence(text=text, event="last heartbeat", at=job.heartbeat_at)


def _completing(job: Job, _why: str, _now: datetime) -> Sentence:
    return Sentence(text=f"Finishing{_place(job)}: the payload has ended, and its output is being stored.")


def _rescheduled(job: Job, _why: str, _now: datetime) -> Sentence:
    return Sentence(text=f"Rescheduled{_reason(job)}. It waits again when its last pilot has stopped it.")


def _done(job: Job, _why: str, _now: datetime) -> Sentence:
    text = f"Done{_place(job)}{_after(job)}"
    if has_lost_output(job):
        text = f"{text}, but a part of its output is lost{_reason(job)}"
    return Sentence(text=text, event="ended", at=job.ended_at)


def _failed(job: Job, _why: str, _now: datetime) -> Sentence:
    see = Tab.ERRORS if job.exit_code is not None else Tab.HISTORY
    return Sentence(text=f"Failed{_place(job)}{_after(job)}{_reason(job)}", event="ended", at=job.ended_at, see=see)


def _killed(job: Job, _why: str, _now: datetime) -> Sentence:
    return Sentence(text=f"{job.minor_status or 'Killed'}{_place(job)}{_after(job)}", event="ended", at=job.ended_at)


def _deleted(job: Job, _why: str, _now: datetime) -> Sentence:
    return Sentence(text=job.minor_status or "Deleted", event="changed", at=job.status_changed_at)


_SENTENCES: Final[Mapping[JobStatus, Callable[[Job, str, datetime], Sentence]]] = MappingProxyType(
    {
        JobStatus.RECEIVED: _waits,
        JobStatus.CHECKING: _waits,
        JobStatus.WAITING: _waits,
        JobStatus.HELD: _held,
        JobStatus.MATCHED: _matched,
        JobStatus.RUNNING: _running,
        JobStatus.STALLED: _stalled,
        JobStatus.COMPLETING: _completing,
        JobStatus.RESCHEDULED: _rescheduled,
        JobStatus.DONE: _done,
        JobStatus.FAILED: _failed,
        JobStatus.KILLED: _killed,
        JobStatus.DELETED: _deleted,
    }
)


def _since(moment: datetime, now: datetime) -> str:
    """Return the time since the moment in words; 0 s if the clock that set the moment was ahead."""
    return duration(max(0, round((now - moment).total_seconds())))


def _place(job: Job) -> str:
    return f" at {job.site.name}" if job.site else ""


def _after(job: Job) -> str:
    """Return the time that it ran, or waited if it never did."""
    if job.ended_at is None:
        return ""
    if job.started_at is None:
        return f" after it had waited for {_since(job.submitted_at, job.ended_at)}"
    return f" after {_since(job.started_at, job.ended_at)}"


def _reason(job: Job, before: str = ": ", after: str = "") -> str:
    """Return the minor status as part of a sentence; empty: it has none."""
    minor = job.minor_status
    # Not of a name that is written in capitals.
    if minor[1:2].islower():
        minor = minor[0].lower() + minor[1:]
    return f"{before}{minor}{after}" if minor else ""
