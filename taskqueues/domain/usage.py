"""Usage of groups, counted by intervals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: Short compared with the last hour, the shortest reported period; long enough that a week has few rows.
INTERVAL = timedelta(minutes=5)
#: Age at which intervals are deleted: the longest reported period, a week, and a day to spare.
KEPT = timedelta(days=8)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class UsageAmount:
    """Usage: jobs that pilots got, and seconds under lease × processors (ADR 13)."""

    matches: int = 0
    processor_s: float = 0.0


#: Usage of each CPU segment by each group: {(group id, segment in seconds): amount}.
Amounts = Mapping[tuple[int, int], UsageAmount]


def total(amounts: Iterable[UsageAmount]) -> UsageAmount:
    """Return the sum of the amounts."""
    listed = list(amounts)
    return UsageAmount(sum(amount.matches for amount in listed), sum(amount.processor_s for amount in listed))


def added(first: Amounts, second: Amounts) -> dict[tuple[int, int], UsageAmount]:
    """Return the sum of both, by group and segment."""
    return {key: total([first.get(key, UsageAmount()), second.get(key, UsageAmount())]) for key in {**first, **second}}


def interval_of(moment: datetime) -> datetime:
    """Return the beginning of the interval that contains *moment*."""
    return moment - (moment - _EPOCH) % INTERVAL
