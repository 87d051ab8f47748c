"""Eligibility: the queues that meet requirements, computed for all queues at once (RFC7)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resources.domain.parameters import Parameters, Value, canonical_value
from resources.domain.requirements import NO_KINDS, Kinds, Offered, RequiredValue, Requirements

Indexes: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

#: Marks a queue without a value in a column.
_ABSENT = -1
#: Results kept before all are dropped: 5 MB for twenty thousand queues.
_REMEMBERED = 256


class LevelParameterSets(NamedTuple):
    """The parameter sets of one level; many of its rows have equal ones."""

    #: Each distinct parameter set, in canonical form.
    parameter_sets: Sequence[Parameters]
    #: By queue, the position of its parameter set.
    of_queue: Indexes


class _Column(NamedTuple):
    """The values in force under one name."""

    values: Sequence[Value]
    #: The same values, prepared for comparison.
    offered: Sequence[Offered]
    #: By queue, the position of its value, or _ABSENT.
    of_queue: Indexes
    #: By queue, the level of its value, 0 for the outermost, or _ABSENT.
    level: Indexes


class ConfiguredValue(NamedTuple):
    """The value in force of one parameter at one queue, and the level that configures it."""

    value: Value
    #: The level; 0 for the outermost.
    level: int


class Supply:
    """The queues that serve one VO, with the parameters in force there.

    A name becomes a column over all queues at its first use, and a required value is compared once with each offered
    one: comparing twenty thousand queues with a thousand requirements takes a second. Threads may share it:
    simultaneous computations of the same result do no harm.
    """

    def __init__(self, queue_ids: Indexes, levels: Iterable[LevelParameterSets], *, kinds: Kinds = NO_KINDS) -> None:
        """Store the queues.

        Args:
            queue_ids: primary keys, ascending.
            levels: the parameter sets of each level, the outermost first.
            kinds: kinds of comparison, by name.
        """
        self._ids = queue_ids
        self._levels = tuple(levels)
        self._kinds = kinds
        self._columns: dict[str, _Column] = {}
        self._meeting: dict[tuple[str, str], Mask] = {}

    def meeting(self, requirements: Requirements) -> Mask:
        """Return, by queue in the order of primary keys, whether it meets all of *requirements* (canonical)."""
        mask = np.ones(len(self._ids), dtype=np.bool_)
        for name, value in requirements.items():
            mask &= self._meets(name, value)
        return mask

    def eligible(self, requirements: Requirements) -> list[int]:
        """Return the primary keys, sorted, of the queues that meet all of *requirements* (canonical)."""
        eligible: list[int] = self._ids[self.meeting(requirements)].tolist()
        return eligible

    def held_back(self, requirements: Requirements) -> Mapping[str, int]:
        """Return {name: number of queues that do not meet its requirement}, in the order of *requirements*."""
        return {
            name: len(self._ids) - int(np.count_nonzero(self._meets(name, value)))
            for name, value in requirements.items()
        }

    def offered(self, queue_id: int, names: Iterable[str]) -> Parameters:
        """Return the values in force at one of the queues under these names; empty for an unknown queue."""
        row = int(np.searchsorted(self._ids, queue_id))
        if row == len(self._ids) or self._ids[row] != queue_id:
            return {}
        columns = {name: self._column(name) for name in names}
        return {
            name: column.values[column.of_queue[row]]
            for name, column in columns.items()
            if column.of_queue[row] != _ABSENT
        }

    def in_force(self, position: int, name: str) -> ConfiguredValue | None:
        """Return the value in force under *name* at the queue of this position; None: there is none."""
        column = self._column(name)
        if column.of_queue[position] == _ABSENT:
            return None
        return ConfiguredValue(column.values[column.of_queue[position]], int(column.level[position]))

    def in_force_under(self, name: str) -> Mapping[int, Value]:
        """Return {queue: value in force} under *name* (canonical); queues without a value are missing."""
        column = self._column(name)
        described = np.flatnonzero(column.of_queue != _ABSENT)
        positions = column.of_queue[described].tolist()
        pks = self._ids[described].tolist()
        return {pk: column.values[position] for pk, position in zip(pks, positions, strict=True)}

    def misses(self, requirements: Requirements) -> Indexes:
        """Return, by queue in the order of primary keys, how many of *requirements* (canonical) it does not meet."""
        misses = np.zeros(len(self._ids), dtype=np.int64)
        for name, value in requirements.items():
            misses += ~self._meets(name, value)
        return misses

    @property
    def kinds(self) -> Kinds:
        """Return the kinds of comparison, by name."""
        return self._kinds

    def __len__(self) -> int:
        """Return the number of queues."""
        return len(self._ids)

    def _meets(self, name: str, asked: Value) -> Mask:
        # NB: requirements from the database have lists in place of tuples.
        required = canonical_value(asked)
        # As texts: 1, 1.0 and True are equal as keys in Python.
        key = (name, repr(required))
        mask = self._meeting.get(key)
        if mask is None:
            column, demand = self._column(name), RequiredValue.of(name, required, self._kinds)
            # The last verdict is for queues without a value, whose position is -1.
            verdicts = [*map(demand.is_met_by, column.offered), False]
            mask = np.array(verdicts, dtype=np.bool_)[column.of_queue]
            if len(self._meeting) >= _REMEMBERED:
                self._meeting.clear()
            self._meeting[key] = mask
        return mask

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            positions: dict[str, int] = {}
            values: list[Value] = []
            of_queue = np.full(len(self._ids), _ABSENT, dtype=np.int64)
            level_of = np.full(len(self._ids), _ABSENT, dtype=np.int64)
            for depth, level in enumerate(self._levels):
                own = np.full(len(level.parameter_sets), _ABSENT, dtype=np.int64)
                for number, parameter_set in enumerate(level.parameter_sets):
                    value = parameter_set.get(name)
                    if value is not None:
                        own[number] = positions.setdefault(repr(value), len(values))
                        if len(positions) > len(values):
                            values.append(value)
                if len(own):
                    at_level = own[level.of_queue]
                    # An inner level takes precedence over an outer one.
                    of_queue = np.where(at_level == _ABSENT, of_queue, at_level)
                    level_of = np.where(at_level == _ABSENT, level_of, depth)
            self._columns[name] = _Column(values, [Offered.of(value) for value in values], of_queue, level_of)
        return self._columns[name]
