"""Tables, texts, bars and the screen of the client."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.client.terminal.colours import Colours
from wms.client.terminal.progress import bar_of, ended
from wms.client.terminal.screen import Screen
from wms.client.terminal.tables import GAP, NARROWEST, ColumnKind, Table, TableColumn, as_lines, as_tsv, fitting_widths
from wms.client.terminal.text import ago, duration, moment, plain, shortened, size, width_of

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLAIN, COLOURED = Colours(on=False), Colours(on=True)
KINDS = st.sampled_from([ColumnKind.TEXT, ColumnKind.NUMBER, ColumnKind.WHOLE, ColumnKind.STATUS])
COLUMNS = st.lists(
    st.tuples(st.builds(TableColumn, st.text(max_size=12), KINDS, st.integers(1, 9)), st.integers(0, 80)),
    min_size=1,
    max_size=8,
)


@given(COLUMNS, st.integers(1, 200))
def test_columns_fit_the_terminal_and_the_important_ones_stay(
    columns: list[tuple[TableColumn, int]], width: int
) -> None:
    each, natural = [column for column, _ in columns], [max(1, needed) for _, needed in columns]
    widths = fitting_widths(natural, each, width=width)
    kept = [wide for wide in widths if wide]
    assert kept
    assert sum(kept) + GAP * (len(kept) - 1) <= width
    assert all(wide <= needed for wide, needed in zip(widths, natural, strict=True) if wide != width)
    if sum(natural) + GAP * (len(natural) - 1) <= width:
        assert widths == natural
    if len(kept) > 1:
        for column, wide, needed in zip(each, widths, natural, strict=True):
            assert wide in {0, needed} or (column.kind is ColumnKind.TEXT and wide >= min(needed, NARROWEST))
    left_out = [column.importance for column, wide in zip(each, widths, strict=True) if not wide]
    stays = [column.importance for column, wide in zip(each, widths, strict=True) if wide]
    if left_out:
        assert max(left_out) <= min(stays)


TEXTS = st.text(max_size=30)
ROWS = st.lists(st.tuples(st.integers(), TEXTS, TEXTS, TEXTS), max_size=5)


@given(ROWS, st.integers(1, 120), st.booleans())
def test_lines_fit_the_terminal_and_have_no_control_characters(
    rows: list[tuple[int, str, str, str]], width: int, coloured: bool
) -> None:
    columns = (
        TableColumn("ID", ColumnKind.NUMBER, 9),
        TableColumn("STATUS", ColumnKind.STATUS, 8),
        TableColumn("NAME", importance=2),
        TableColumn("X"),
    )
    table = Table(columns, rows, empty="-")
    lines = as_lines(table, width=width, colours=PLAIN, now=NOW)
    assert len(lines) == max(1, len(rows) + bool(rows))
    assert all(width_of(line) <= width and line.isprintable() for line in lines)
    if coloured:
        bare = [uncoloured(line).rstrip() for line in as_lines(table, width=width, colours=COLOURED, now=NOW)]
        assert bare == lines


@given(ROWS)
def test_tab_separated_values_have_one_line_for_each_row_and_one_value_for_each_column(
    rows: list[tuple[int, str, str, str]],
) -> None:
    columns = [TableColumn(name) for name in "abcd"]
    lines = as_tsv(Table(columns, rows))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        values = line.split("\t")
        assert len(values) == 4
        assert values[0] == str(row[0])
        assert line.replace("\t", "").isprintable()


def uncoloured(text: str) -> str:
    for code in ("1", "2", *map(str, range(30, 38)), "0"):
        text = text.replace(f"\x1b[{code}m", "")
    return text


def test_values_in_tsv_are_exact_and_in_tables_short() -> None:
    at = (NOW - timedelta(hours=3)).isoformat()
    columns = (TableColumn("A"), TableColumn("B", ColumnKind.MOMENT), TableColumn("C"), TableColumn("D"))
    table = Table(columns, [(None, at, ["x", "y"], True)])
    assert as_tsv(table) == [f"\t{at}\tx,y\ttrue"]
    assert as_lines(table, width=80, colours=PLAIN, now=NOW)[1].split() == ["3", "h", "ago", "x,", "y", "yes"]
    assert as_lines(Table(columns, [], empty="None."), width=80, colours=PLAIN, now=NOW) == ["None."]


def test_statuses_have_their_colour() -> None:
    table = Table([TableColumn("STATUS", ColumnKind.STATUS)], [["Done"], ["Failed"]])
    assert as_lines(table, width=80, colours=COLOURED, now=NOW)[1:] == ["\x1b[32mDone\x1b[0m", "\x1b[31mFailed\x1b[0m"]


@given(st.text(), st.integers(1, 40))
def test_a_shortened_text_fits_and_says_that_it_was_shortened(text: str, width: int) -> None:
    text = plain(text)
    short = shortened(text, width)
    assert width_of(short) <= width
    assert short == text if width_of(text) <= width else short.endswith("…")


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(0), "now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=5, seconds=3), "5 min ago"),
        (timedelta(hours=30), "1 d ago"),
        (-timedelta(hours=2), "in 2 h"),
    ],
)
def test_times_are_shown_relative_to_now(distance: timedelta, words: str) -> None:
    assert ago((NOW - distance).isoformat(), now=NOW) == words


def test_texts_of_times_and_sizes() -> None:
    assert ago("no time", now=NOW) == "no time"
    assert moment("2026-06-01T12:00:00Z") == "2026-06-01 12:00 UTC"
    assert [duration(seconds) for seconds in (0, 61, 3600, 90_061)] == ["0 s", "1 min 1 s", "1 h", "1 d 1 h"]
    assert [size(number) for number in (0, 999, 1500, 2_000_000_000)] == ["0 B", "999 B", "1.5 kB", "2.0 GB"]


STATUSES = st.dictionaries(
    st.sampled_from(["Done", "Failed", "Killed", "Running", "Waiting", "Held"]), st.integers(0, 10_000)
)


@given(STATUSES, st.integers(1, 120))
def test_a_bar_fits_and_fills_as_jobs_end(jobs: dict[str, int], width: int) -> None:
    bar = bar_of(jobs, width=width, colours=PLAIN)
    assert width_of(bar) <= width
    total = sum(jobs.values())
    if bar.startswith(("█", "▒", "░")) and total:
        cells = sum(bar.count(cell) for cell in "█▒░")
        assert bar.count("█") == cells * ended(jobs) // total


def test_the_screen_is_drawn_from_its_corner_and_left_as_it_was() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.enter()
    screen.draw(["one", "two", "three"], height=2)
    screen.leave()
    assert stream.getvalue() == "\x1b[?1049h\x1b[?25l\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J\x1b[?25h\x1b[?1049l"
