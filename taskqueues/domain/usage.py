"""What groups get, counted by intervals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: Short against the last hour, the shortest time of which one is told; long enough that a week has few rows.
INTERVAL = timedelta(minutes=5)
#: What is older is asked for by nobody: a week, and a day to spare.
KEPT = timedelta(days=8)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class UsageAmount:
    """Something delivered: jobs that pilots got, and seconds under lease × processors (ADR 13)."""

    matches: int = 0
    processor_s: float = 0.0


#: What each group got of each CPU segment: {(group id, segment in seconds): amount}.
Amounts = Mapping[tuple[int, int], UsageAmount]


def total(amounts: Iterable[UsageAmount]) -> UsageAmount:
    """Return all of them together."""
    listed = list(amounts)
    return UsageAmount(sum(amount.matches for amount in listed), sum(amount.processor_s for amount in listed))


def added(one: Amounts, other: Amounts) -> dict[tuple[int, int], UsageAmount]:
    """Return both together, group by group and segment by segment."""
    return {key: total([one.get(key, UsageAmount()), other.get(key, UsageAmount())]) for key in {**one, **other}}


def interval_of(moment: datetime) -> datetime:
    """Return when the interval began in which *moment* lies."""
    return moment - (moment - _EPOCH) % INTERVAL
