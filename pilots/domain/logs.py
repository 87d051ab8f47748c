"""Logs of pilots: how much of one is kept, and how what was left out is told.

Offsets and lengths are in characters; what agents write is ASCII, so that these are their bytes as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

#: Of one request.
MAX_CHUNK_LENGTH = 64 * 1024
#: Beyond the two together, the middle is left out: how a pilot began and how it ended are what people ask about.
HEAD_LENGTH = 128 * 1024
TAIL_LENGTH = 896 * 1024
#: A part grows to this length before there is another one: so much PostgreSQL keeps within the row itself, so that a
#: few lines a minute make neither a row for each few lines nor a rewritten megabyte.
PART_LENGTH = 2000
#: Of what a batch system kept of a pilot's output.
MAX_OUTPUT_LENGTH = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Some of a log, as it came."""

    offset: int
    text: str

    @property
    def end(self) -> int:
        """Offset of what follows."""
        return self.offset + len(self.text)


def what_is_new(chunk: LogPart, *, received: int) -> LogPart | None:
    """Return what of *chunk* lies beyond the first *received* characters of the log; None: nothing does.

    A chunk that begins behind them leaves a gap, for its pilot had to forget something.
    """
    if not chunk.text or chunk.end <= received:
        return None
    start = max(chunk.offset, received)
    return LogPart(offset=start, text=chunk.text[start - chunk.offset :])


def left_out_of(received: int) -> range:
    """Return the offsets of the parts that are left out of a log of *received* characters."""
    return range(HEAD_LENGTH, max(HEAD_LENGTH, received - TAIL_LENGTH))


def joined(parts: Iterable[LogPart]) -> str:
    """Return the text of *parts*, which are in order, with a line wherever something is missing between them."""
    written: list[str] = []
    end = 0
    for part in parts:
        if part.offset > end:
            written.append(_gap(part.offset - end, at_line_start=not written or written[-1].endswith("\n")))
        written.append(part.text)
        end = part.end
    return "".join(written)


def shortened(text: str, *, most: int = MAX_OUTPUT_LENGTH) -> str:
    """Return *text* with its middle left out, and a line that says so, if it is longer than *most* characters."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 4], text[len(text) - (most - most // 4) :]
    return head + _gap(len(text) - most, at_line_start=head.endswith("\n")) + tail


def newest_of(text: str, *, most: int, received: int) -> str:
    """Return the last lines of *text*, *most* characters of them at most, and a line that says how much is before.

    Args:
        text: the end of a log, or all of it.
        most: characters.
        received: those of the whole log.
    """
    if len(text) <= most:
        return text
    tail = text[len(text) - most :]
    # From the start of a line on; a single line longer than all is cut.
    tail = tail[tail.find("\n") + 1 :] or tail
    return _gap(received - len(tail), at_line_start=True) + tail


def _gap(length: int, *, at_line_start: bool) -> str:
    start = "" if at_line_start else "\n"
    return f"{start}[… {length:,} character{'' if length == 1 else 's'} left out …]\n"
