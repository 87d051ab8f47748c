"""Which limits this process found full a moment ago: jobs of theirs are left out of a draw that has others."""

from threading import Lock
from time import monotonic
from typing import Final

#: As old as what the index knows may be (DESIGN §4.2).
REMEMBERED_S: Final = 1.0


class FullLimits:
    """Limits by when they were found full; threads share it.

    To claim a job of a full limit takes as long as to get one. So each process does it about once a second and limit,
    but for pilots that would get nothing else: those ask the database.
    """

    def __init__(self) -> None:
        self._found_at: dict[int, float] = {}
        self._lock = Lock()

    def note(self, limit_id: int) -> None:
        """Note that a claim found it full."""
        with self._lock:
            self._found_at[limit_id] = monotonic()

    def recent(self) -> frozenset[int]:
        """Return those that were full a moment ago."""
        if not self._found_at:
            return frozenset()
        oldest = monotonic() - REMEMBERED_S
        with self._lock:
            self._found_at = {limit: at for limit, at in self._found_at.items() if at >= oldest}
            return frozenset(self._found_at)


#: Of this process.
full_limits = FullLimits()
