"""Which limits this process found full a moment ago: jobs of theirs are left out of a draw that has others."""

from threading import Lock
from time import monotonic
from typing import Final

#: As old as what the index knows may be (DESIGN §4.2).
REMEMBERED_S: Final = 1.0


class FullLimits:
    """Limits by until when they are taken for full; threads share it.

    To claim a job of a full limit takes as long as to get one. So each process does it about once a second and limit,
    but for pilots that would get nothing else: those ask the database.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def note(self, limit_id: int, *, delay_s: float | None = None) -> None:
        """Note that a claim found it full.

        Args:
            limit_id: of the limit.
            delay_s: between its matches: by then it has opened, if that is all that closed it; None: it has none.
        """
        with self._lock:
            self._until[limit_id] = monotonic() + min(REMEMBERED_S, delay_s or REMEMBERED_S)

    def recent(self) -> frozenset[int]:
        """Return those that were full a moment ago."""
        if not self._until:
            return frozenset()
        now = monotonic()
        with self._lock:
            self._until = {limit: until for limit, until in self._until.items() if until >= now}
            return frozenset(self._until)


#: Of this process.
full_limits = FullLimits()
