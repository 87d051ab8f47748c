"""Levels all of whose jobs a claim found held back (ADR 33)."""

from collections.abc import Collection, Hashable
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import RowOf


class Levels(NamedTuple):
    """Levels of an index, in the order of their rows."""

    rows: NDArray[np.intp]
    user_priorities: NDArray[np.intp]


_NO_LEVELS: Final = Levels(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))


class _Noted(NamedTuple):
    """The levels of one snapshot that are held back for one scope, as arrays."""

    levels: Levels
    #: Seconds since 1970.
    until: NDArray[np.float64]


class HeldBackLevels:
    """The levels (task queue, user priority) whose jobs are held back, by scope, with the time until then.

    There may be thousands, and each match excludes those for its pilot from its draw: they are stored as arrays too.
    """

    def __init__(self, until_of: dict[Hashable, dict[tuple[int, int], datetime]] | None = None) -> None:
        self._until_of = until_of or {}
        #: Built when needed, and again after the next note.
        self._noted: dict[Hashable, _Noted] = {}

    def note(self, level: tuple[int, int], *, of: Hashable, until: datetime) -> None:
        """Record that no job of a level is available to *of* before *until*."""
        self._until_of.setdefault(of, {})[level] = until
        self._noted.pop(of, None)

    def of(self, names: Collection[Hashable], *, now: datetime, row_of: RowOf) -> Levels:
        """Return the levels that are held back for one of *names* now.

        Args:
            names: the scopes.
            now: by the database's clock.
            row_of: of the snapshot that this belongs to, always the same.
        """
        if not self._until_of:
            return _NO_LEVELS
        held_levels = []
        for name in names:
            if name not in self._until_of:
                continue
            noted = self._noted.get(name)
            if noted is None:
                noted = self._noted[name] = _as_arrays(self._until_of[name], row_of)
            held = noted.until > now.timestamp()
            held_levels.append(Levels(*(column[held] for column in noted.levels)))
        rows, user_priorities = (
            np.concatenate([*columns, np.empty(0, dtype=np.intp)])
            for columns in (zip(*held_levels, strict=True) if held_levels else ((), ()))
        )
        if len(held_levels) > 1:
            order = np.argsort(rows, kind="stable")
            return Levels(rows[order], user_priorities[order])
        return Levels(rows, user_priorities)

    def still(
        self, *, now: datetime, came: Collection[tuple[int, int]], recounted: Collection[int]
    ) -> "HeldBackLevels":
        """Return what still applies in the next snapshot.

        Args:
            now: levels held back until an earlier time are dropped.
            came: levels to which jobs were added.
            recounted: task queues that are gone, or that were only counted: some jobs may have been added.
        """
        still: dict[Hashable, dict[tuple[int, int], datetime]] = {}
        for name, until_of_level in self._until_of.items():
            left = {
                level: until
                for level, until in until_of_level.items()
                if until > now and level not in came and level[0] not in recounted
            }
            if left:
                still[name] = left
        return HeldBackLevels(still)


def _as_arrays(until_of_level: dict[tuple[int, int], datetime], row_of: RowOf) -> _Noted:
    # Copied at once: other threads add further ones.
    noted = list(until_of_level.items())
    levels = np.array([level for level, _ in noted], dtype=np.int64).reshape(-1, 2)
    until = np.array([until.timestamp() for _, until in noted])
    has_row = row_of.holds(levels[:, 0])
    rows = row_of.all(levels[has_row, 0])
    order = np.argsort(rows, kind="stable")
    return _Noted(Levels(rows[order], levels[has_row, 1][order].astype(np.intp)), until[has_row][order])
