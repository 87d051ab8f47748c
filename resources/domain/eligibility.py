"""Which of many queues meet which requirements, worked out for all of them at once (RFC7)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resources.domain.parameters import Parameters, Value, canonical_value
from resources.domain.requirements import NO_KINDS, Kinds, Offered, RequiredValue, Requirements

Indexes: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

#: In a column: nothing is said.
_ABSENT = -1
#: Then all are forgotten: 5 MB of twenty thousand queues.
_REMEMBERED = 256


class LevelSayings(NamedTuple):
    """What one level says: many of its rows the same."""

    #: Each different saying, in canonical form.
    sayings: Sequence[Parameters]
    #: For each queue, the position of what this level says to it.
    of_queue: Indexes


class _Column(NamedTuple):
    """What is in force under one name."""

    values: Sequence[Value]
    #: The same, for comparisons.
    offered: Sequence[Offered]
    #: For each queue, the position of its value; or _ABSENT.
    of_queue: Indexes
    #: For each queue, which level said it, the outermost is 0; or _ABSENT.
    level: Indexes


class ConfiguredValue(NamedTuple):
    """The value of one parameter that is in force at one queue, and the level that configures it."""

    value: Value
    #: Which level said it; the outermost is 0.
    level: int


class Supply:
    """The queues that serve one VO, with the parameters in force there.

    A name becomes a column over all queues when it is first asked for, and a value asked for is compared with each
    value offered once: twenty thousand queues are compared with a thousand requirements in a second. Threads may share
    it: what two work out at once is the same.
    """

    def __init__(self, queue_ids: Indexes, levels: Iterable[LevelSayings], *, kinds: Kinds = NO_KINDS) -> None:
        """Take in the queues.

        Args:
            queue_ids: primary keys, ascending.
            levels: what each says to each of these queues, the outermost first.
            kinds: how the VO's names are compared.
        """
        self._ids = queue_ids
        self._levels = tuple(levels)
        self._kinds = kinds
        self._columns: dict[str, _Column] = {}
        self._meeting: dict[tuple[str, str], Mask] = {}

    def meeting(self, requirements: Requirements) -> Mask:
        """Return, for each queue by primary key, whether it meets all of *requirements* (canonical)."""
        found = np.ones(len(self._ids), dtype=np.bool_)
        for name, value in requirements.items():
            found &= self._meets(name, value)
        return found

    def eligible(self, requirements: Requirements) -> list[int]:
        """Return the primary keys, sorted, of the queues that meet all of *requirements* (canonical)."""
        eligible: list[int] = self._ids[self.meeting(requirements)].tolist()
        return eligible

    def held_back(self, requirements: Requirements) -> Mapping[str, int]:
        """Return {name: how many queues do not meet what is required of it}, in the order of *requirements*."""
        return {
            name: len(self._ids) - int(np.count_nonzero(self._meets(name, value)))
            for name, value in requirements.items()
        }

    def offered(self, queue_id: int, names: Iterable[str]) -> Parameters:
        """Return what is in force at one of the queues under these names; a queue that is not known offers nothing."""
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
        """Return what is in force under *name* at the queue of that position; None: nothing is."""
        column = self._column(name)
        if column.of_queue[position] == _ABSENT:
            return None
        return ConfiguredValue(column.values[column.of_queue[position]], int(column.level[position]))

    def in_force_under(self, name: str) -> Mapping[int, Value]:
        """Return {queue: the value in force there} under *name* (canonical); a queue without one is missing."""
        column = self._column(name)
        said = np.flatnonzero(column.of_queue != _ABSENT)
        positions = column.of_queue[said].tolist()
        return {pk: column.values[position] for pk, position in zip(self._ids[said].tolist(), positions, strict=True)}

    def misses(self, requirements: Requirements) -> Indexes:
        """Return, for each queue by primary key, how many of *requirements* (canonical) it does not meet."""
        found = np.zeros(len(self._ids), dtype=np.int64)
        for name, value in requirements.items():
            found += ~self._meets(name, value)
        return found

    @property
    def kinds(self) -> Kinds:
        """How the VO's names are compared."""
        return self._kinds

    def __len__(self) -> int:
        """Return how many queues there are."""
        return len(self._ids)

    def _meets(self, name: str, asked: Value) -> Mask:
        # NB: requirements that come from the database have lists where tuples were.
        wanted = canonical_value(asked)
        # As texts: to Python 1, 1.0 and True are one key.
        key = (name, repr(wanted))
        found = self._meeting.get(key)
        if found is None:
            column, demand = self._column(name), RequiredValue.of(name, wanted, self._kinds)
            # The last one is for what is absent.
            verdicts = [*map(demand.is_met_by, column.offered), False]
            found = np.array(verdicts, dtype=np.bool_)[column.of_queue]
            if len(self._meeting) >= _REMEMBERED:
                self._meeting.clear()
            self._meeting[key] = found
        return found

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            positions: dict[str, int] = {}
            values: list[Value] = []
            of_queue = np.full(len(self._ids), _ABSENT, dtype=np.int64)
            said_by = np.full(len(self._ids), _ABSENT, dtype=np.int64)
            for depth, level in enumerate(self._levels):
                own = np.full(len(level.sayings), _ABSENT, dtype=np.int64)
                for number, saying in enumerate(level.sayings):
                    value = saying.get(name)
                    if value is not None:
                        own[number] = positions.setdefault(repr(value), len(values))
                        if len(positions) > len(values):
                            values.append(value)
                if len(own):
                    said = own[level.of_queue]
                    # The level decides: what is said further in comes before what is said further out.
                    of_queue = np.where(said == _ABSENT, of_queue, said)
                    said_by = np.where(said == _ABSENT, said_by, depth)
            self._columns[name] = _Column(values, [Offered.of(value) for value in values], of_queue, said_by)
        return self._columns[name]
