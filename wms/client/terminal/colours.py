"""Colours of statuses, by the escape sequences of ANSI."""

from __future__ import annotations

_RESET = "\x1b[0m"
_BOLD, _DIM = "1", "2"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA = "31", "32", "33", "34", "35"
#: {status of a job, pilot, or resource: colour}.
COLOUR_OF = {
    "Received": _YELLOW,
    "Checking": _YELLOW,
    "Waiting": _YELLOW,
    "Submitted": _YELLOW,
    "Matched": _BLUE,
    "Running": _BLUE,
    "Completing": _BLUE,
    "Done": _GREEN,
    "active": _GREEN,
    "yes": _GREEN,
    "Failed": _RED,
    "Aborted": _RED,
    "Lost": _RED,
    "banned": _RED,
    "no": _RED,
    "Killed": _MAGENTA,
    "Held": _MAGENTA,
    "Stalled": _MAGENTA,
    "draining": _MAGENTA,
    "Deleted": _DIM,
}


class Colours:
    """Writes texts in colours, or plainly.

    Args:
        on: whether there are colours.
    """

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def status(self, text: str, *, named: str = "") -> str:
        """Return a text in the colour of a status.

        Args:
            text: to be shown, perhaps a part of the status or padded.
            named: the status; empty: the text itself.
        """
        return self._in(COLOUR_OF.get(named or text.strip(), ""), text)

    def heading(self, text: str) -> str:
        """Return a text in bold."""
        return self._in(_BOLD, text)

    def dim(self, text: str) -> str:
        """Return a text in a weak colour."""
        return self._in(_DIM, text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if self.on and code else text
