"""Names that count up (``vo1``, ``vo2``, …), and the time of the rows."""

from datetime import UTC, datetime
from itertools import count

#: A Monday; tests that pass times around use it as their "now".
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)

numbers = count(1)


def unique_name(kind: str) -> str:
    """Return a name that no other row of the test has."""
    return f"{kind}{next(numbers)}"
