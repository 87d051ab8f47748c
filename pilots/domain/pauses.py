"""How long a computing element that only fails is left alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=30)
#: The mark of a round is renewed while it is under way; when it is over, the round's process has died.
BUSY_FOR = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one pilot: in which cycle it was sent, and, if it ended in vain, when."""

    submitted_at: datetime
    #: None: it ran, or a job came of it.
    failed_at: datetime | None


def paused_until(latest: Sequence[Outcome]) -> datetime | None:
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


def pause_after(failures: int) -> timedelta:
    """Return how long a computing element is left alone that has failed so many times in a row (at least once)."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 1, 16)))
