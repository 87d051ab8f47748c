"""How long a computing element that only fails, or a batch queue where no pilot starts, is left alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=30)
#: The mark of a round is renewed while it is under way; when it is over, the round's process has died.
BUSY_FOR = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOutcome:
    """What became of one pilot: in which cycle it was sent, and, if it ended in vain, when."""

    submitted_at: datetime
    #: None: it ran, or a job came of it.
    failed_at: datetime | None


def paused_until(latest: Sequence[PilotOutcome]) -> datetime | None:
    """Return until when nothing more should be sent to a computing element; None: it does not fail.

    The pause doubles with each cycle in a row of which every pilot failed.

    Args:
        latest: the computing element's pilots whose outcome is known, the one that was sent last first.
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
    """One pilot that did not start in time: when it was submitted, and when it was declared stalled."""

    submitted_at: datetime
    stalled_at: datetime


def stalled_until(stalls: Sequence[StalledPilot], *, first: timedelta, longest: timedelta) -> datetime | None:
    """Return until when nothing more should be sent to a batch queue where pilots did not start; None: there are none.

    The pause begins with the newest stall, and doubles with each pilot in a row that was sent after an earlier one had
    stalled. Pilots that waited side by side count once.

    Args:
        stalls: of the batch queue since a pilot last started there, in any order.
        first: the pause after the first of them.
        longest: the longest pause.
    """
    in_a_row = 0
    counted_until: datetime | None = None
    for stall in sorted(stalls, key=lambda stall: stall.submitted_at):
        if counted_until is None or stall.submitted_at >= counted_until:
            in_a_row += 1
            counted_until = stall.stalled_at
    if not in_a_row:
        return None
    newest = max(stall.stalled_at for stall in stalls)
    return newest + min(longest, first * (1 << min(in_a_row - 1, 16)))


def pause_after(failures: int) -> timedelta:
    """Return how long a computing element is left alone that has failed so many times in a row (at least once)."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 1, 16)))
