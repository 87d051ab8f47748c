"""Presentation of the last lines that a job's attempts wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from wms.jobs.domain.lifecycle import LEASED
from wms.jobs.models import Job, OutputTail
from wms.portal.presentation.job_tabs import Tab


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutput:
    """The last lines of one attempt."""

    #: From 1.
    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """The last lines of standard output, or of standard error."""

    #: "standard output" or "standard error".
    stream: str
    #: Of the present attempt; empty: none were reported.
    text: str
    number: int
    #: Of a running job: time of the report; None: the job does not run, or has not reported.
    reported_at: datetime | None
    #: What an empty text means.
    why_empty: str
    #: Earlier attempts that wrote something, the newest first.
    earlier: Sequence[AttemptOutput]


def output_view(job: Job, *, tails: Sequence[OutputTail], tab: Tab) -> OutputView:
    """Return the last lines of one stream.

    Args:
        job: any.
        tails: of its attempts, the oldest first.
        tab: that of standard output, or that of standard error.
    """
    stream = "standard error" if tab is Tab.ERRORS else "standard output"
    texts = {tail.attempt: (tail.std_error if tab is Tab.ERRORS else tail.std_output) or "" for tail in tails}
    is_running = job.status in LEASED
    return OutputView(
        stream=stream,
        text=texts.pop(job.attempt, ""),
        number=job.attempt + 1,
        reported_at=job.heartbeat_at if is_running else None,
        why_empty=_why_empty(job, stream),
        earlier=[
            AttemptOutput(number=attempt + 1, text=texts[attempt]) for attempt in sorted(texts)[::-1] if texts[attempt]
        ],
    )


def _why_empty(job: Job, stream: str) -> str:
    if job.status in LEASED:
        return f"Nothing was reported yet; a running job reports the last lines of its {stream} with each heartbeat."
    if job.started_at is None and job.exit_code is None:
        return "The job has not run, so it has written nothing."
    return f"The job has written nothing to its {stream}."
