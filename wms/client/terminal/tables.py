"""Tables: they fit the width of a terminal, and are tab-separated values elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from .colours import Colours
from .text import ago, plain, shortened, width_of

#: Blanks between two columns.
GAP = 2
#: Characters of an id for people.
_SHORT_ID = 8
#: Width to which a column can be shortened.
NARROWEST = 6


class ColumnKind(Enum):
    """Kinds of columns."""

    TEXT = "text"
    #: To the right; never shortened.
    NUMBER = "number"
    #: Times of the server; relative in a terminal. Never shortened.
    MOMENT = "moment"
    #: In the colour of each status; never shortened.
    STATUS = "status"
    #: Texts that lose their meaning if they are shortened, such as keys.
    WHOLE = "whole"
    #: Ids whose beginning is enough for people, and for commands.
    UUID = "uuid"


class TableColumn(NamedTuple):
    """A column of a table."""

    heading: str
    kind: ColumnKind = ColumnKind.TEXT
    #: Those with the smallest number are shortened, or left out, first.
    importance: int = 1


class Table(NamedTuple):
    """Rows of values; None is an empty cell."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[object]]
    #: The sentence for people when there are no rows.
    empty: str = "There is none."


class Facts(NamedTuple):
    """Labels with values; without those whose value is None or empty."""

    facts: Sequence[tuple[str, object]]


def as_tsv(table: Table) -> list[str]:
    """Return the rows for a program: values as the server wrote them, with tabs between, without headings."""
    return ["\t".join(exact(value) for value in row) for row in table.rows]


def exact(value: object) -> str:
    """Return a value for a program; a list with commas, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(exact(each) for each in value)
    return plain(value)


def as_lines(table: Table, *, width: int, colours: Colours, now: datetime) -> list[str]:
    """Return the table for a terminal.

    Args:
        table: with at least one column.
        width: of the terminal, at least 1; no line is wider.
        colours: of headings and statuses.
        now: times are relative to it.
    """
    if not table.rows:
        return [plain(table.empty)]
    shown = [[_for_people(value, column, now=now) for value, column in zip(row, table.columns)] for row in table.rows]
    headings = [column.heading for column in table.columns]
    natural = [max(map(width_of, cells)) for cells in zip(headings, *shown)]
    widths = fitting_widths(natural, table.columns, width=width)
    kept = [position for position, column_width in enumerate(widths) if column_width]
    lines = []
    for cells in (headings, *shown):
        texts = []
        for position in kept:
            column, text = table.columns[position], shortened(cells[position], widths[position])
            padding = " " * (widths[position] - width_of(text))
            is_last = position == kept[-1]
            padded = padding + text if column.kind is ColumnKind.NUMBER else text if is_last else text + padding
            if cells is headings:
                padded = colours.heading(padded)
            elif column.kind is ColumnKind.STATUS:
                padded = colours.status(padded, named=cells[position])
            texts.append(padded)
        lines.append((" " * GAP).join(texts) if colours.on else (" " * GAP).join(texts).rstrip())
    return lines


def fitting_widths(natural: Sequence[int], columns: Sequence[TableColumn], *, width: int) -> list[int]:
    """Return the widths of columns that fit together; 0: the column is left out.

    Columns of small importance are shortened before others, the widest first, down to NARROWEST; what is still too
    wide then loses whole columns in the same order. The last one that is left may be shortened whatever its kind.

    Args:
        natural: widths that the contents need.
        columns: in the same order.
        width: of the terminal, at least 1.
    """
    widths = list(natural)
    least = [min(wide, NARROWEST) if column.kind is ColumnKind.TEXT else wide for wide, column in zip(natural, columns)]
    for importance in sorted({column.importance for column in columns}):
        members = [position for position, column in enumerate(columns) if column.importance == importance]
        _shorten(widths, least, members, excess=_total(widths) - width)
    for position in sorted(range(len(columns)), key=lambda position: (columns[position].importance, -position)):
        if _total(widths) <= width:
            break
        if sum(map(bool, widths)) == 1:
            widths[position] = width
        elif _total(widths) > width:
            widths[position] = 0
            _widen(widths, natural, columns, room=width - _total(widths))
    return widths


def _shorten(widths: list[int], least: Sequence[int], members: Sequence[int], *, excess: int) -> None:
    """Shorten columns, the widest first, until they have lost *excess* or are as narrow as they may be."""
    while excess > 0:
        wider = [position for position in members if widths[position] > least[position]]
        if not wider:
            return
        widest = max(wider, key=lambda position: widths[position])
        widths[widest] -= 1
        excess -= 1


def _widen(widths: list[int], natural: Sequence[int], columns: Sequence[TableColumn], *, room: int) -> None:
    """Give room that a column has left to the others, the most important first."""
    for position in sorted(range(len(widths)), key=lambda position: -columns[position].importance):
        if widths[position] and room > 0:
            more = min(room, natural[position] - widths[position])
            widths[position] += more
            room -= more


def _total(widths: Sequence[int]) -> int:
    """Return the width of a line with these columns."""
    kept = [width for width in widths if width]
    return sum(kept) + GAP * (len(kept) - 1)


def _for_people(value: object, column: TableColumn, *, now: datetime) -> str:
    if value is None:
        return ""
    if column.kind is ColumnKind.MOMENT:
        return ago(value, now=now)
    if column.kind is ColumnKind.UUID:
        return plain(value)[:_SHORT_ID]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(each) for each in value)
    return plain(value)
