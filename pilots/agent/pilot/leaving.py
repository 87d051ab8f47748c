"""How a pilot's life ends."""

from __future__ import annotations

DONE, REFUSED, UNREACHABLE = 0, 1, 3


class Leaving(Exception):  # noqa: N818 - no error, but how the loop ends
    """The pilot's life is over, for a reason that the server is told."""

    def __init__(self, reason: str, *, exit_code: int = DONE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
