"""When and where a job that was given back may be matched again: a growing delay, and other places first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What a queued job says about its next match; times are by the database's clock.

    Args:
        not_before: no pilot gets the job before.
        avoided_until: from then on the places below may have it too; None: no place is avoided.
        avoided_queue_ids: configured queues that gave it back, the latest last; empty: no place is avoided.
        avoided_host: of those queues only this host is avoided; None: the whole queues are.
    """

    not_before: datetime
    avoided_until: datetime | None = None
    avoided_queue_ids: tuple[int, ...] = ()
    avoided_host: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it in the form in which a job carries it while it stands in no queue."""
        return {
            "not_before": self.not_before.isoformat(),
            "avoided_until": None if self.avoided_until is None else self.avoided_until.isoformat(),
            "avoided_queue_ids": list(self.avoided_queue_ids),
            "avoided_host": self.avoided_host,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "HeldBack":
        """Return what ``as_json`` returned."""
        until = stored["avoided_until"]
        return cls(
            not_before=datetime.fromisoformat(stored["not_before"]),
            avoided_until=None if until is None else datetime.fromisoformat(until),
            avoided_queue_ids=tuple(stored["avoided_queue_ids"]),
            avoided_host=stored["avoided_host"],
        )


def delay_s(*, reschedules: int, first_s: int, longest_s: int) -> int:
    """Return how long a job waits after it was given back, in seconds.

    Args:
        reschedules: how often it was rescheduled before, ≥ 0.
        first_s: the delay of the first time; it doubles with each further one.
        longest_s: the limit of the delay.
    """
    # 2**30 delays of a second are 34 years: nobody computes with larger numbers.
    doubled: int = first_s << min(reschedules, 30)
    return min(longest_s, doubled)
