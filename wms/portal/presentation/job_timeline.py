"""The timeline of a job: the events of each attempt, and the time between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from matching.models import Match
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job, JobHistory
from wms.portal.presentation.statuses import Segment, badge_of

#: Statuses that end an attempt.
_ENDS: Final = FINAL | {JobStatus.RESCHEDULED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event of an attempt."""

    label: str
    at: datetime
    #: Seconds since the event before it; None: it is the first.
    after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt to run a job."""

    #: From 1.
    number: int
    #: Site, CE and batch queue; empty: not matched, or no longer known.
    place: str
    steps: Sequence[Step]
    #: Seconds of each part, for a bar.
    segments: Sequence[Segment]
    #: Reason of its end; empty: it has not ended.
    reason: str


@dataclass(slots=True, kw_only=True)
class _Attempt:
    began_at: datetime
    #: "Submitted", or "Waiting again" of later attempts.
    beginning: str
    matched_at: datetime | None = None
    started_at: datetime | None = None
    finishing_at: datetime | None = None
    ended_at: datetime | None = None
    end: str = ""
    reason: str = ""
    leases: list[Match] = field(default_factory=list)

    def note(self, status: str, *, at: datetime, reason: str) -> None:
        """Add a change of the job's status."""
        if status == JobStatus.MATCHED:
            self.matched_at = self.matched_at or at
        elif status == JobStatus.RUNNING:
            self.started_at = self.started_at or at
        elif status == JobStatus.COMPLETING:
            self.finishing_at = at
        elif status in _ENDS:
            self.ended_at, self.end, self.reason = at, status, reason

    def covers(self, moment: datetime) -> bool:
        """Return whether a lease of that moment is one of this attempt."""
        return self.began_at <= moment and (self.ended_at is None or moment <= self.ended_at)


def timeline_of(
    job: Job, *, history: Sequence[JobHistory], leases: Sequence[Match], now: datetime
) -> Sequence[AttemptView]:
    """Return the attempts of *job*, the newest first.

    Args:
        job: any.
        history: its changes, oldest first; perhaps only the newest.
        leases: its leases with their queues, oldest first.
        now: the end of what has not ended.
    """
    attempts = _attempts(history) or [_by_columns(job)]
    for lease in leases:
        of_lease = next((attempt for attempt in reversed(attempts) if attempt.covers(lease.leased_at)), None)
        if of_lease is not None:
            of_lease.leases.append(lease)
    # Earlier ones may be missing from a history that is cut.
    first = max(1, job.attempt + 2 - len(attempts))
    views = [_view(attempt, number=first + index, now=now) for index, attempt in enumerate(attempts)]
    return views[::-1]


def _attempts(history: Sequence[JobHistory]) -> list[_Attempt]:
    attempts: list[_Attempt] = []
    for change in history:
        is_open = bool(attempts) and attempts[-1].ended_at is None
        if not is_open:
            if attempts and change.status in _ENDS:  # a failed job that is rescheduled, or one that is deleted
                continue
            beginning = "Waiting again" if attempts else "Submitted"
            attempts.append(_Attempt(began_at=change.changed_at, beginning=beginning))
        attempts[-1].note(change.status, at=change.changed_at, reason=change.minor_status)
    return attempts


def _by_columns(job: Job) -> _Attempt:
    """Return the last attempt of a job without history."""
    return _Attempt(
        began_at=job.submitted_at,
        beginning="Submitted",
        matched_at=job.matched_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        end=job.status if job.ended_at else "",
        reason=job.minor_status if job.ended_at else "",
    )


def _view(attempt: _Attempt, *, number: int, now: datetime) -> AttemptView:
    events = (
        (attempt.beginning, attempt.began_at),
        ("Matched", attempt.matched_at),
        ("Started", attempt.started_at),
        ("Payload ended", attempt.finishing_at),
        (attempt.end or "Ended", attempt.ended_at),
    )
    steps: list[Step] = []
    for label, at in events:
        if at is not None:
            after_s = (at - steps[-1].at).total_seconds() if steps else None
            steps.append(Step(label=label, at=at, after_s=after_s))
    return AttemptView(
        number=number,
        place=_place(attempt.leases),
        steps=steps,
        segments=_segments(attempt, now=now),
        reason=attempt.reason,
    )


def _segments(attempt: _Attempt, *, now: datetime) -> list[Segment]:
    end = attempt.ended_at or now
    bounds = (
        ("waiting", "s waiting", attempt.began_at, attempt.matched_at or end),
        ("held", "s starting", attempt.matched_at, attempt.started_at or end),
        (
            badge_of(attempt.end) if attempt.end else "running",
            "s running",
            attempt.started_at,
            attempt.finishing_at or end,
        ),
        ("running", "s finishing", attempt.finishing_at, end),
    )
    return [
        Segment(kind=kind, label=label, count=max(0, round((until - since).total_seconds())))
        for kind, label, since, until in bounds
        if since is not None
    ]


def _place(leases: Sequence[Match]) -> str:
    queue = leases[-1].queue if leases else None
    return f"{queue.ce.site.name} / {queue.ce.name} / {queue.name}" if queue else ""
