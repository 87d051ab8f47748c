"""Conditions for the next match of a job that was given back: a growing delay, and other places first (ADR 33)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """The delay and the avoided places of a queued job; times are by the database's clock.

    Args:
        not_before: time before which no pilot gets the job.
        avoided_until: time from which the places below may get it again; None: no place is avoided.
        avoided_queue_ids: queues that gave it back, the latest last; empty: no place is avoided.
        avoided_host: the only host avoided at these queues; None: the whole queues are avoided.
    """

    not_before: datetime
    avoided_until: datetime | None = None
    avoided_queue_ids: tuple[int, ...] = ()
    avoided_host: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the form in which a job outside task queues stores it."""
        return {
            "not_before": self.not_before.isoformat(),
            "avoided_until": None if self.avoided_until is None else self.avoided_until.isoformat(),
            "avoided_queue_ids": list(self.avoided_queue_ids),
            "avoided_host": self.avoided_host,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> "HeldBack":
        """Return the object that ``as_json`` stored."""
        return msgspec.convert(stored, cls)


def delay_s(*, reschedules: int, first_s: int, longest_s: int) -> int:
    """Return the seconds for which a job waits after it was given back.

    Args:
        reschedules: previous reschedules of the job, ≥ 0.
        first_s: the first delay; each further one is twice as long.
        longest_s: the longest delay.
    """
    # 2**30 delays of a second are 34 years: larger numbers are never needed.
    doubled: int = first_s << min(reschedules, 30)
    return min(longest_s, doubled)
