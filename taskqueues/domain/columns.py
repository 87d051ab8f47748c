"""Task queues as columns: the values that the conditions of a match compare, for all task queues at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.definition import QueueDefinition
from wms.wire.amounts import AMOUNTS

#: One truth value for each row.
Mask: TypeAlias = NDArray[np.bool_]
#: Numbers of rows.
Rows: TypeAlias = NDArray[np.intp]

_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One task queue in the index."""

    task_queue_id: int
    definition: QueueDefinition
    #: Whether its owner is not suspended, and is a member of its group.
    trusted: bool


@dataclass(frozen=True, slots=True)
class NumberColumns:
    """Numbers of each row, by name."""

    by_name: Mapping[str, NDArray[np.int64]]

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        return self.by_name[name]

    def take(self, rows: Rows) -> "NumberColumns":
        """Return the columns of these rows only, in their order."""
        return NumberColumns({name: column[rows] for name, column in self.by_name.items()})

    def followed_by(self, other: "NumberColumns") -> "NumberColumns":
        """Return the columns with the rows of *other* appended."""
        return NumberColumns({name: np.concatenate((column, other[name])) for name, column in self.by_name.items()})


@dataclass(frozen=True, slots=True)
class NameColumn:
    """One name for each row, such as the job type."""

    #: Number of the name, by row.
    code: NDArray[np.int32]
    code_of: Mapping[str, int]

    @classmethod
    def of(cls, names: Sequence[str]) -> "NameColumn":
        """Return the column of these names."""
        code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
        return cls(np.array([code_of[name] for name in names], dtype=np.int32), MappingProxyType(code_of))

    def is_(self, name: str) -> Mask:
        """Return the rows with the name *name*."""
        found_rows: Mask = self.code == self.code_of.get(name, -1)
        return found_rows

    def is_one_of(self, names: Iterable[str]) -> Mask:
        """Return the rows with one of *names*."""
        codes = [self.code_of[name] for name in names if name in self.code_of]
        return np.isin(self.code, codes)

    def take(self, rows: Rows) -> "NameColumn":
        """Return the column of these rows only, in their order."""
        return NameColumn(self.code[rows], self.code_of)

    def followed_by(self, other: "NameColumn") -> "NameColumn":
        """Return the column with the rows of *other* appended."""
        code_of = dict(self.code_of)
        translated = [code_of.setdefault(name, len(code_of)) for name in other.code_of]
        theirs = np.array(translated, dtype=np.int32)[other.code] if len(other.code) else other.code
        return NameColumn(np.concatenate((self.code, theirs)), MappingProxyType(code_of))


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A list of names for each row, stored inverted: for each name, the rows that list it."""

    #: Ascending row numbers.
    rows_of: Mapping[str, Rows]
    #: Number of names in each row.
    length: NDArray[np.int32]

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]]) -> "ListColumn":
        """Return the column of these lists, each without duplicates."""
        rows_of: dict[str, list[int]] = {}
        for row, names in enumerate(lists):
            for name in names:
                rows_of.setdefault(name, []).append(row)
        return cls(
            MappingProxyType({name: np.array(rows, dtype=np.intp) for name, rows in rows_of.items()}),
            np.array([len(names) for names in lists], dtype=np.int32),
        )

    @property
    def some_listed(self) -> bool:
        """Return whether any row lists a name."""
        return bool(self.rows_of)

    def empty(self) -> Mask:
        """Return the rows with an empty list."""
        rows: Mask = self.length == 0
        return rows

    def lists(self, name: str) -> Mask:
        """Return the rows that list *name*."""
        return self.lists_one_of((name,))

    def accepts(self, name: str) -> Mask:
        """Return the rows with an empty list, or one with *name*."""
        return self.accepts_one_of((name,))

    def accepts_one_of(self, names: Iterable[str]) -> Mask:
        """Return the rows with an empty list, or one with some of *names*."""
        return self.empty() | self.lists_one_of(names)

    def lists_one_of(self, names: Iterable[str]) -> Mask:
        """Return the rows that list some of *names*."""
        rows = np.zeros(len(self.length), dtype=np.bool_)
        for name in names:
            rows[self.rows_of.get(name, _NO_ROWS)] = True
        return rows

    def accepts_all(self, names: Iterable[str]) -> Mask:
        """Return the rows with an empty list, or one with all of *names*, which are not empty."""
        names = list(names)
        return self.empty() | self.holds_all(names) if names else self.empty()

    def within(self, names: Iterable[str]) -> Mask:
        """Return the rows that list only *names*."""
        hits = np.zeros(len(self.length), dtype=np.int32)
        for name in frozenset(names):
            hits[self.rows_of.get(name, _NO_ROWS)] += 1
        rows: Mask = hits == self.length
        return rows

    def holds_all(self, names: Iterable[str]) -> Mask:
        """Return the rows that list all of *names*."""
        rows = np.ones(len(self.length), dtype=np.bool_)
        for name in names:
            rows &= self.lists(name)
        return rows

    def take(self, rows: Rows) -> "ListColumn":
        """Return the column of these rows only, in their order."""
        new_row = np.full(len(self.length), -1, dtype=np.intp)
        new_row[rows] = np.arange(len(rows))
        rows_of = {}
        for name, listing in self.rows_of.items():
            moved = new_row[listing]
            kept = np.sort(moved[moved >= 0])
            if len(kept):
                rows_of[name] = kept
        return ListColumn(MappingProxyType(rows_of), self.length[rows])

    def followed_by(self, other: "ListColumn") -> "ListColumn":
        """Return the column with the rows of *other* appended."""
        rows_of, before = dict(self.rows_of), len(self.length)
        for name, listing in other.rows_of.items():
            rows_of[name] = np.concatenate((rows_of.get(name, _NO_ROWS), listing + before))
        return ListColumn(MappingProxyType(rows_of), np.concatenate((self.length, other.length)))


#: Columns by kind; each is a field of the definition of a task queue.
KEYS = ("owner_id", "group_id", "vo_id")
#: Compared with what is offered; a container is required (1) or not (0).
NUMBERS = ("cpu_time_s", *(amount.name for amount in AMOUNTS), "container")
NAMES = ("setup", "job_type")
LISTS = ("submit_pools", "pilot_types", "sites", "banned_sites", "grid_ces", "platforms", "software", "tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The definitions of all task queues, one row each; immutable.

    The rows of a CPU segment are adjacent, the highest segment first: a match uses the first with a fit. Within a
    segment they are ordered by id.
    """

    task_queue_id: NDArray[np.int64]
    owner_id: NDArray[np.int64]
    group_id: NDArray[np.int64]
    vo_id: NDArray[np.int64]
    numbers: NumberColumns
    #: Whether the owner is not suspended, and is a member of the group.
    trusted: Mask
    setup: NameColumn
    job_type: NameColumn
    submit_pools: ListColumn
    pilot_types: ListColumn
    sites: ListColumn
    banned_sites: ListColumn
    grid_ces: ListColumn
    platforms: ListColumn
    software: ListColumn
    tags: ListColumn

    @classmethod
    def of(cls, queues: Iterable[QueueRow]) -> "Columns":
        """Return the columns of these task queues, each of which occurs once."""
        rows = list(queues)
        values = {name: [getattr(row.definition, name) for row in rows] for name in (*KEYS, *NUMBERS, *NAMES, *LISTS)}
        columns: dict[str, Any] = {
            **{name: np.array(values[name], dtype=np.int64) for name in KEYS},
            "numbers": NumberColumns({name: np.array(values[name], dtype=np.int64) for name in NUMBERS}),
            **{name: NameColumn.of(values[name]) for name in NAMES},
            **{name: ListColumn.of(values[name]) for name in LISTS},
        }
        unordered = cls(
            task_queue_id=np.array([row.task_queue_id for row in rows], dtype=np.int64),
            trusted=np.array([row.trusted for row in rows], dtype=np.bool_),
            **columns,
        )
        return unordered.take(unordered.order())

    def __len__(self) -> int:
        return len(self.task_queue_id)

    @property
    def cpu_time_s(self) -> NDArray[np.int64]:
        """The CPU segments."""
        return self.numbers["cpu_time_s"]

    def order(self) -> Rows:
        """Return the rows in their proper order."""
        return np.lexsort((self.task_queue_id, -self.cpu_time_s))

    def segments(self) -> Mapping[int, slice]:
        """Return {CPU segment in seconds: its rows}, the highest first."""
        values, starts = np.unique(-self.cpu_time_s, return_index=True)
        bounds = [*starts.tolist(), len(self)]
        return {-int(value): slice(*rows) for value, rows in zip(values, pairwise(bounds), strict=True)}

    def changed(self, *, gone: Iterable[int], come: Sequence[QueueRow]) -> tuple["Columns", Rows]:
        """Return the columns without the task queues *gone* and with the new ones *come*.

        Returns:
            The columns, and for each of their rows the previous row, or -1.
        """
        leaves = np.isin(self.task_queue_id, np.fromiter(gone, dtype=np.int64))
        origin = np.flatnonzero(~leaves)
        columns = self.take(origin)
        if come:
            columns = columns.followed_by(Columns.of(come))
            origin = np.concatenate((origin, np.full(len(come), -1, dtype=np.intp)))
            order = columns.order()
            columns, origin = columns.take(order), origin[order]
        return columns, origin

    def take(self, rows: Rows) -> "Columns":
        """Return the columns of these rows only, in their order."""
        return Columns(**{field.name: getattr(self, field.name).take(rows) for field in fields(self)})

    def followed_by(self, other: "Columns") -> "Columns":
        """Return the columns with the rows of *other* appended."""
        joined: dict[str, Any] = {}
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            is_array = isinstance(ours, np.ndarray)
            joined[field.name] = np.concatenate((ours, theirs)) if is_array else ours.followed_by(theirs)
        return Columns(**joined)


class RowOf:
    """The row of each task queue."""

    def __init__(self, columns: Columns) -> None:
        self._rows = np.argsort(columns.task_queue_id)
        self._ids = columns.task_queue_id[self._rows]

    def get(self, task_queue_id: int) -> int | None:
        """Return the row of a task queue; None: it has none."""
        position = int(self._ids.searchsorted(task_queue_id))
        exists = position < len(self._ids) and self._ids[position] == task_queue_id
        return int(self._rows[position]) if exists else None

    def holds(self, task_queue_ids: NDArray[np.int64]) -> Mask:
        """Return which of the task queues have a row."""
        return np.isin(task_queue_ids, self._ids)

    def all(self, task_queue_ids: NDArray[np.int64]) -> Rows:
        """Return the rows of these task queues, all of which have one."""
        return self._rows[np.searchsorted(self._ids, task_queue_ids)]
