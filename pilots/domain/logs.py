"""Logs of pilots: how much of a log is stored, and the lines that stand for what was left out.

Offsets and lengths are in characters; agents write ASCII, so these are bytes as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Characters stored from the start and the end of a log: people ask how a pilot began and how it ended.
HEAD_LENGTH = 128 * 1024
TAIL_LENGTH = 896 * 1024
#: Characters of one stored part: PostgreSQL keeps so much within the row itself. So a few lines a minute make neither
#: a row each nor a rewritten megabyte.
PART_LENGTH = 2000
#: Parts of one log, four times as many as it has without gaps: a pilot that leaves a gap with each chunk would make a
#: row of each character.
MOST_PARTS = 4 * (HEAD_LENGTH + TAIL_LENGTH) // PART_LENGTH
#: Lines with the words of a search that are shown, lines around each, and characters of a line.
MOST_FOUND = 200
LINES_AROUND = 2
LONGEST_LINE = 500
#: Characters stored of the output that a batch system kept.
MAX_OUTPUT_LENGTH = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """A piece of a log, as received."""

    offset: int
    text: str

    @property
    def end(self) -> int:
        """Offset of the next part."""
        return self.offset + len(self.text)


def new_part_of(chunk: LogPart, *, received: int) -> LogPart | None:
    """Return the part of *chunk* beyond the first *received* characters of the log; None: there is none.

    A chunk that begins later leaves a gap: the pilot had dropped lines.
    """
    if not chunk.text or chunk.end <= received:
        return None
    start = max(chunk.offset, received)
    return LogPart(offset=start, text=chunk.text[start - chunk.offset :])


def left_out_of(received: int) -> range:
    """Return the range of offsets whose parts are left out of a log of *received* characters."""
    return range(HEAD_LENGTH, max(HEAD_LENGTH, received - TAIL_LENGTH))


def joined(parts: Iterable[LogPart]) -> str:
    """Return the text of *parts*, which are in order, with a line for each gap between them."""
    written: list[str] = []
    end = 0
    for part in parts:
        if part.offset > end:
            written.append(_gap(part.offset - end, at_line_start=not written or written[-1].endswith("\n")))
        written.append(part.text)
        end = part.end
    return "".join(written)


def shortened(text: str, *, most: int = MAX_OUTPUT_LENGTH) -> str:
    """Return *text*; if it is longer than *most* characters, a line replaces its middle."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 4], text[len(text) - (most - most // 4) :]
    return head + _gap(len(text) - most, at_line_start=head.endswith("\n")) + tail


def newest_of(text: str, *, most: int, received: int) -> str:
    """Return the last lines of *text*, at most *most* characters, after a line that counts the characters before them.

    Args:
        text: the end of a log, or the whole.
        most: characters.
        received: characters of the whole log.
    """
    if len(text) <= most:
        return text
    tail = text[len(text) - most :]
    # From the start of a line; a single line longer than *most* is cut.
    tail = tail[tail.find("\n") + 1 :] or tail
    return _gap(received - len(tail), at_line_start=True) + tail


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log, by its number from 1 on."""

    number: int
    text: str
    #: Whether it contains the words; else it is beside one that does.
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLines:
    """The lines of a log that contain some words, with the lines around them."""

    #: All that contain them.
    matches: int = 0
    #: Those of the first MOST_FOUND matches.
    lines: Sequence[LogLine] = ()

    @property
    def has_more(self) -> bool:
        """Return whether there are matches that are left out."""
        return self.matches > MOST_FOUND


def find(text: str, words: str) -> FoundLines:
    """Return the lines that contain *words* as they are, but for letter case."""
    lines, sought = text.split("\n"), words.lower()
    matches = [number for number, line in enumerate(lines) if sought in line.lower()]
    around = {
        number
        for match in matches[:MOST_FOUND]
        for number in range(max(0, match - LINES_AROUND), min(len(lines), match + LINES_AROUND + 1))
    }
    matching = set(matches)
    return FoundLines(
        matches=len(matches),
        lines=[
            LogLine(number=number + 1, text=_cut(lines[number], sought), is_match=number in matching)
            for number in sorted(around)
        ],
    )


def _cut(line: str, sought: str) -> str:
    """Return the line; of a long one the part with what is sought, if it is there, else the beginning."""
    if len(line) <= LONGEST_LINE:
        return line
    begin = max(0, line.lower().find(sought) - LONGEST_LINE // 2)
    end = begin + LONGEST_LINE
    return f"{'…' * (begin > 0)}{line[begin:end]}{'…' * (end < len(line))}"


def _gap(length: int, *, at_line_start: bool) -> str:
    start = "" if at_line_start else "\n"
    return f"{start}[… {length:,} character{'' if length == 1 else 's'} left out …]\n"
