"""Levels of which a claim found that all their jobs are held back (ADR 33)."""

from collections.abc import Collection, Hashable
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import RowOf


class Levels(NamedTuple):
    """Levels of an index, in the order of their rows."""

    rows: NDArray[np.intp]
    user_priorities: NDArray[np.intp]


class _Noted(NamedTuple):
    """The levels of one snapshot that are held back for somebody, as arrays."""

    levels: Levels
    #: As seconds since 1970.
    until: NDArray[np.float64]


class HeldBackLevels:
    """For whom, and until when, the jobs of which levels (task queue, user priority) are held back.

    There may be thousands, and each match takes those for its pilot out of its draw: they are kept as arrays too.
    """

    def __init__(self, until_of: dict[Hashable, dict[tuple[int, int], datetime]] | None = None) -> None:
        self._until_of = until_of or {}
        #: Made when somebody asks for them, and again after the next note.
        self._noted: dict[Hashable, _Noted] = {}

    def note(self, level: tuple[int, int], *, of: Hashable, until: datetime) -> None:
        """Note that no job of a level may be had by *of* before *until*."""
        self._until_of.setdefault(of, {})[level] = until
        self._noted.pop(of, None)

    def of(self, names: Collection[Hashable], *, now: datetime, row_of: RowOf) -> Levels:
        """Return the levels that are held back for one of *names* now.

        Args:
            names: for whom.
            now: by the database's clock.
            row_of: of the snapshot that this belongs to, always the same.
        """
        found = []
        for name in names:
            if name not in self._until_of:
                continue
            noted = self._noted.get(name)
            if noted is None:
                noted = self._noted[name] = _as_arrays(self._until_of[name], row_of)
            held = noted.until > now.timestamp()
            found.append(Levels(*(column[held] for column in noted.levels)))
        rows, user_priorities = (
            np.concatenate([*columns, np.empty(0, dtype=np.intp)])
            for columns in (zip(*found, strict=True) if found else ((), ()))
        )
        if len(found) > 1:
            order = np.argsort(rows, kind="stable")
            return Levels(rows[order], user_priorities[order])
        return Levels(rows, user_priorities)

    def still(
        self, *, now: datetime, came: Collection[tuple[int, int]], recounted: Collection[int]
    ) -> "HeldBackLevels":
        """Return what holds in the next snapshot.

        Args:
            now: what ends before is over.
            came: levels to which jobs came.
            recounted: task queues that are gone, or of which only a count is told: some jobs may have come.
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
    # All at once: other threads note further ones.
    noted = list(until_of_level.items())
    levels = np.array([level for level, _ in noted], dtype=np.int64).reshape(-1, 2)
    until = np.array([until.timestamp() for _, until in noted])
    known = row_of.holds(levels[:, 0])
    rows = row_of.all(levels[known, 0])
    order = np.argsort(rows, kind="stable")
    return _Noted(Levels(rows[order], levels[known, 1][order].astype(np.intp)), until[known][order])
