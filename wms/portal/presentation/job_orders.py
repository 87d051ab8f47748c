"""Orders of the list of jobs: the headings that sort it, the menu of orders, and the links to adjacent pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wms.jobs.queries.sorted_jobs import MOST_SORTED, SORTED_BY, Order, Position, SortedPart
from wms.portal.presentation.columns import COLUMNS, CellKind, Column
from wms.portal.presentation.job_menus import LinkTo

#: Name of the order by id with the oldest job first; any other name that is no column's means the newest first.
_OLDEST: Final = "oldest"
#: Columns in the order of the ids, which jobs get when they are submitted.
_BY_ID: Final = frozenset({"job", "submitted"})
_TEXTS: Final = frozenset({CellKind.TEXT, CellKind.WHY})
_NUMBERS: Final = frozenset({CellKind.NUMBER, CellKind.DURATION})
#: {kind of a column: its ascending and its descending order in words}.
_WORDS: Final[Mapping[CellKind, tuple[str, str]]] = MappingProxyType(
    {
        CellKind.TEXT: ("A to Z", "Z to A"),
        CellKind.WHY: ("A to Z", "Z to A"),
        CellKind.NUMBER: ("smallest first", "largest first"),
        CellKind.DURATION: ("shortest first", "longest first"),
        CellKind.TIME: ("earliest first", "latest first"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """The order of a list, and the orders that it can have."""

    #: None: by id.
    order: Order | None
    #: Of the order by id.
    newest_first: bool
    #: Whether the list is short enough to be sorted by columns.
    is_short: bool
    #: Why the list does not have the wanted order; empty: it has.
    problem: str
    #: Query string of the list in the order of this name.
    link: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The heading of a column."""

    label: str
    is_number: bool
    #: Query string of the list sorted by the column; empty: it cannot be.
    query: str = ""
    #: Value of ``aria-sort``, and its icon; empty: the list is not sorted by this column.
    sorted: str = ""
    icon: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """The query strings of the adjacent pages; empty: there is none."""

    previous: str
    previous_label: str
    next: str
    next_label: str


def ordering_of(name: str, *, jobs: int | None, link: Callable[[str], str]) -> Ordering:
    """Return the order of a list.

    Args:
        name: of the wanted order: of a column, with ``-`` for a descending one.
        jobs: number of jobs of the list; None: not known, so too many to be sorted.
        link: the query string of the list in the order of a name.
    """
    column = name.removeprefix("-")
    wanted = Order(by=column, is_descending=name.startswith("-")) if column in SORTED_BY else None
    is_short = jobs is not None and jobs <= MOST_SORTED
    problem = "" if wanted is None or is_short else (
        f"Only lists of at most {MOST_SORTED:,} jobs are sorted by their columns. This one has more, so the newest job "
        "comes first; narrow it, for example by since:1d."
    )  # fmt: skip
    return Ordering(
        order=wanted if is_short else None,
        newest_first=name != _OLDEST,
        is_short=is_short,
        problem=problem,
        link=link,
    )


def headings_of(columns: Sequence[Column], ordering: Ordering) -> Sequence[Heading]:
    """Return the headings of the id, the status, and these columns."""
    names = {column.name for column in columns}
    # One of the columns by id shows the order: a table is sorted by one column.
    by_id = "submitted" if "submitted" in names else "job"
    return [
        _heading_by_id("Job", CellKind.NUMBER, ordering, is_shown=by_id == "job"),
        _heading("status", "Status", CellKind.TEXT, ordering),
        *(
            _heading_by_id(column.label, column.kind, ordering, is_shown=by_id == column.name)
            if column.name in _BY_ID
            else _heading(column.name, column.label, column.kind, ordering)
            for column in columns
        ),
    ]


def orders_of(columns: Sequence[Column], ordering: Ordering) -> Sequence[LinkTo]:
    """Return the menu of orders: those by id, and those by the columns that are shown, or sort the list."""
    is_by_id, newest_first = ordering.order is None, ordering.newest_first
    by_id = (
        LinkTo(label="Newest first", query=ordering.link(""), is_current=is_by_id and newest_first),
        LinkTo(label="Oldest first", query=ordering.link(_OLDEST), is_current=is_by_id and not newest_first),
    )
    current = None if ordering.order is None else COLUMNS.get(ordering.order.by)
    shown = [*columns, current] if current is not None and current not in columns else columns
    heads = [("status", "Status", CellKind.TEXT), *((column.name, column.label, column.kind) for column in shown)]
    by_column = [
        LinkTo(
            label=f"{label}, {_WORDS[kind][order.is_descending]}",
            query=ordering.link(_name(order)),
            is_current=ordering.order == order,
        )
        for name, label, kind in heads
        if ordering.is_short and name in SORTED_BY
        for order in (Order(by=name, is_descending=False), Order(by=name, is_descending=True))
    ]
    return [*by_id, *by_column]


def pager_by_id(ordering: Ordering, *, newer: str, older: str) -> Pager:
    """Return the links of a page of a list by id, of the query strings of the pages with newer and older jobs."""
    if ordering.newest_first:
        return Pager(previous=newer, previous_label="newer", next=older, next_label="older")
    return Pager(previous=older, previous_label="older", next=newer, next_label="newer")


def pager_of(part: SortedPart, order: Order, *, link: Callable[..., str]) -> Pager:
    """Return the links of a part of a sorted list; *link* returns the query string with parameters of the page."""
    places = [str(Position.of(job, order)) for job in (*part.jobs[:1], *part.jobs[-1:])]
    return Pager(
        previous=link(upto=places[0]) if places and part.has_previous else "",
        previous_label="previous",
        next=link(beyond=places[1]) if places and part.has_next else "",
        next_label="next",
    )


def _heading_by_id(label: str, kind: CellKind, ordering: Ordering, *, is_shown: bool) -> Heading:
    is_sorted = ordering.order is None and is_shown
    query = ordering.link(_OLDEST if ordering.order is None and ordering.newest_first else "")
    return _marked(label, kind, query=query, is_descending=ordering.newest_first if is_sorted else None)


def _heading(name: str, label: str, kind: CellKind, ordering: Ordering) -> Heading:
    order = ordering.order
    if not ordering.is_short or name not in SORTED_BY:
        return Heading(label=label, is_number=kind in _NUMBERS)
    if order is not None and order.by == name:
        query = ordering.link(_name(Order(by=name, is_descending=not order.is_descending)))
        return _marked(label, kind, query=query, is_descending=order.is_descending)
    # What is looked for more often comes first: the latest and the largest, but names from A.
    query = ordering.link(_name(Order(by=name, is_descending=kind not in _TEXTS)))
    return _marked(label, kind, query=query, is_descending=None)


def _marked(label: str, kind: CellKind, *, query: str, is_descending: bool | None) -> Heading:
    """Return a heading with the order of its column; None: the list is not sorted by it."""
    marks = {None: ("", ""), False: ("ascending", "arrow-up"), True: ("descending", "arrow-down")}
    direction, icon = marks[is_descending]
    return Heading(label=label, is_number=kind in _NUMBERS, query=query, sorted=direction, icon=icon)


def _name(order: Order) -> str:
    return f"-{order.by}" if order.is_descending else order.by
