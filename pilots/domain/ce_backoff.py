"""Back-off: pauses of computing elements that fail, and of batch queues where no pilot starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

#: Pause after the first failure; each further one doubles it.
FIRST_PAUSE = timedelta(seconds=5)
#: The pause grows no longer than this.
LONGEST_PAUSE = timedelta(minutes=30)
#: Validity of the mark that a round is under way; it is renewed during the round, so an expired one is of a dead
#: process.
BUSY_FOR = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOutcome:
    """The outcome of one pilot: the cycle that sent it and, if it failed, the time of its end."""

    submitted_at: datetime
    #: None: it ran, or had a job.
    failed_at: datetime | None


def paused_until(latest: Sequence[PilotOutcome]) -> datetime | None:
    """Return until when a computing element gets no pilots; None: it does not fail.

    The pause doubles with each consecutive cycle of which every pilot failed.

    Args:
        latest: the computing element's pilots with a known outcome, the latest first.
    """
    failed_cycles: set[datetime] = set()
    newest: datetime | None = None
    for outcome in latest:
        if outcome.failed_at is None:
            failed_cycles.discard(outcome.submitted_at)
            break
        failed_cycles.add(outcome.submitted_at)
        newest = max(newest or outcome.failed_at, outcome.failed_at)
    if newest is None or not failed_cycles:
        return None
    return newest + pause_after(len(failed_cycles))


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledPilot:
    """A pilot that did not start in time: the times of its submission and of its status Stalled."""

    submitted_at: datetime
    stalled_at: datetime


def stalled_until(stalls: Sequence[StalledPilot], *, first: timedelta, longest: timedelta) -> datetime | None:
    """Return until when a batch queue gets no pilots because some did not start; None: it has no pause.

    The pause begins with the newest stalled pilot, and doubles with each consecutive pilot that was sent after an
    earlier one had stalled. Pilots that waited at the same time count once.

    Args:
        stalls: the batch queue's stalled pilots since one last started there, in any order.
        first: the pause after the first of them.
        longest: the longest pause.
    """
    consecutive = 0
    counted_until: datetime | None = None
    for stall in sorted(stalls, key=lambda stall: stall.submitted_at):
        if counted_until is None or stall.submitted_at >= counted_until:
            consecutive += 1
            counted_until = stall.stalled_at
    if not consecutive:
        return None
    newest = max(stall.stalled_at for stall in stalls)
    return newest + min(longest, first * (1 << min(consecutive - 1, 16)))


def pause_after(failures: int) -> timedelta:
    """Return the pause of a computing element after so many consecutive failures (at least one)."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 1, 16)))
