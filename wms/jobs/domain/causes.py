"""The cause of a failure: the line of the payload's output that tells most, and the kind of such lines."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from wms.jobs.domain.reasons import normalised

LONGEST_LINE: Final = 200
#: Hexadecimal digits of the key of a kind.
KEY_LENGTH: Final = 10
#: Value of the filter by cause: jobs of which none is known.
NO_CAUSE: Final = "none"
#: Key, in the place of a cause, of jobs whose payload was successful, and of whose output a part is stored nowhere.
LOST_OUTPUT: Final = "lost"

#: Minor statuses that leave the cause to the output; more may be said about the output after a semicolon.
_ENDED_BY_ITSELF: Final = re.compile(r"Exited with code -?\d+(?:;|\Z)")
_SIGNAL: Final = re.compile(r"Killed by signal \d")
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
#: What a shell prints of its commands (``set -x``).
_TRACE: Final = re.compile(r"\++ ")
_TELLS: Final = re.compile(
    r"""error|exception|fatal|fail(?:ed|ure|s)?\b|cannot|can't|could\ not|unable|not\ found|no\ such|denied|refused
    | invalid|abort|killed|segmentation|out\ of\ memory|no\ space|missing|panic|assert|undefined|unexpected|illegal
    | timed?\ ?-?out|must\ be|not\ (?:a|an|permitted|supported|allowed|enough)\b|quota|corrupt|mismatch|unknown
    | too\ (?:large|long|many)
    """,
    re.VERBOSE | re.IGNORECASE,
)


class FailureCause(NamedTuple):
    """Why a payload failed, in its own words."""

    #: As it was printed, at most LONGEST_LINE characters.
    line: str
    #: The same for all lines that differ only in numbers, times, ids, paths and hosts.
    key: str


def cause_of(minor: str | None, *, std_error: str, std_output: str) -> FailureCause | None:
    """Return the cause that the last lines of a failed payload tell; None: they tell none.

    The last line of standard error counts first, then that of standard output, if it speaks of a failure; else the last
    one that does; else, of a payload that ended by itself, the last one at all.

    Args:
        minor: minor status of the end; None or empty: an exit code says it. A reason in words is the cause itself.
        std_error, std_output: the last lines of the payload.
    """
    if minor and not _ENDED_BY_ITSELF.match(minor) and not _SIGNAL.match(minor):
        return None
    streams = [list(_lines(std_error)), list(_lines(std_output))]
    last = [lines[-1] for lines in streams if lines]
    telling = [line for lines in streams for line in reversed(lines) if _TELLS.search(line)]
    by_itself = not (minor and _SIGNAL.match(minor))
    lines = [*(line for line in last if _TELLS.search(line)), *telling, *(last if by_itself else ())]
    if not lines:
        return None
    line = lines[0]
    text = normalised(line).text.casefold()
    return FailureCause(line=line[:LONGEST_LINE], key=sha256(text.encode()).hexdigest()[:KEY_LENGTH])


def _lines(tail: str) -> Iterator[str]:
    """Yield the lines with words, as a terminal would show them."""
    for whole in tail.split("\n"):
        # A progress bar writes over its line again and again.
        shown = _ESCAPE.sub("", whole).rstrip("\r").rpartition("\r")[2]
        line = "".join(character if character.isprintable() else " " for character in shown).strip()
        if any(character.isalnum() for character in line) and not _TRACE.match(line):
            yield line
