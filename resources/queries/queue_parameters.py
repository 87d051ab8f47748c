"""All queues that serve a VO, prepared for comparison with requirements (RFC7)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from resources.domain.eligibility import Indexes, LevelParameterSets, Supply
from resources.domain.enums import RequirementKind
from resources.domain.parameters import LevelParameters, Parameters, Value, inherit
from resources.domain.requirements import Misses, Requirements, how_missed
from resources.sql import ParameterSets
from wms.kernel.memo import RecentlyUsed

#: Queues by site and CE.
Tree = Mapping[str, Mapping[str, Sequence[str]]]

#: The levels of a supply, the outermost first.
LEVELS = ("site", "ce", "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetRequirement:
    """One requirement that one queue does not meet."""

    #: Case-folded.
    name: str
    misses: Misses
    asked: Value
    #: The value in force at the queue; None: there is none.
    offered: Value | None
    #: The level, one of LEVELS, that configures it; None: none does.
    level: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IneligibleQueue:
    """One queue and its unmet requirements."""

    site: str
    ce: str
    queue: str
    unmet: Sequence[UnmetRequirement]


_NO_PARAMETERS: Parameters = MappingProxyType({})
_NONE: Indexes = np.empty(0, dtype=np.int64)
#: Queues of all VOs that a process caches, some 10 MB for each twenty thousand.
_KEPT: Final = 160_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Every queue at the sites that serve a VO; threads share it."""

    supply: Supply
    #: (name of the site, name) of each CE that serves the VO, sorted.
    ces: Sequence[tuple[str, str]]
    #: The queues, sorted by site, CE and name: position in the supply, position of the CE, name.
    row: Indexes
    ce: Indexes
    name: NDArray[np.object_]

    def tree(self, requirements: Requirements) -> Tree:
        """Return the queues that meet *requirements* (canonical), sorted by name at each level."""
        matching = np.flatnonzero(self.supply.meeting(requirements)[self.row])
        ce, names = self.ce[matching], self.name[matching].tolist()
        begins = np.flatnonzero(np.diff(ce, prepend=-1)).tolist()
        tree: dict[str, dict[str, Sequence[str]]] = {}
        for begin, end in zip(begins, [*begins[1:], len(names)], strict=False):
            site, its_ce = self.ces[ce[begin]]
            tree.setdefault(site, {})[its_ce] = tuple(names[begin:end])
        return tree

    def ineligible(self, requirements: Requirements, *, at_most: int) -> list[IneligibleQueue]:
        """Return queues that do not meet *requirements* (canonical), sorted by number of unmet ones, then by name."""
        misses = self.supply.misses(requirements)[self.row]
        wanting = np.flatnonzero(misses)
        nearest = wanting[np.argsort(misses[wanting], kind="stable")][:at_most]
        return [self._ineligible(int(number), requirements) for number in nearest]

    def _ineligible(self, number: int, requirements: Requirements) -> IneligibleQueue:
        site, ce = self.ces[self.ce[number]]
        unmet = []
        for name, asked in requirements.items():
            in_force = self.supply.in_force(int(self.row[number]), name)
            offered = None if in_force is None else in_force.value
            misses = how_missed(name, asked, offered, self.supply.kinds)
            if misses is not None:
                level = None if in_force is None else LEVELS[in_force.level]
                unmet.append(UnmetRequirement(name=name, misses=misses, asked=asked, offered=offered, level=level))
        return IneligibleQueue(site=site, ce=ce, queue=str(self.name[number]), unmet=unmet)


_known: Final[RecentlyUsed[tuple[ParameterSets, tuple[tuple[str, RequirementKind], ...]], Described]] = RecentlyUsed(
    most=_KEPT, unused_s=600.0, size_of=lambda _, queues: 1 + len(queues.name)
)


def described(parameter_sets: ParameterSets, *, kinds: tuple[tuple[str, RequirementKind], ...]) -> Described:
    """Prepare the queues from the parameter sets of the levels.

    The cache is keyed by the data itself: reading it takes a third of the time of preparing it, comparing it takes
    none, and no change can be missed.

    Args:
        parameter_sets: as read from the database.
        kinds: kinds of comparison, by name.
    """
    return _known.recall((parameter_sets, kinds), lambda: _prepared(parameter_sets, kinds=dict(kinds)))


def _prepared(parameter_sets: ParameterSets, *, kinds: Mapping[str, RequirementKind]) -> Described:
    at_site, at_ce, at_queue = (_DistinctSets() for _ in range(3))
    sites = {pk: (name, at_site.position(*own)) for pk, name, *own in parameter_sets.sites}
    ces = sorted(
        (sites[site_id][0], name, pk, sites[site_id][1], at_ce.position(*own))
        for pk, name, site_id, *own in parameter_sets.ces
        if site_id in sites  # else the site serves other VOs, or was created between the statements
    )
    ids, ce_ids, said, names = _columns_of_queues(parameter_sets, at_queue)
    serving, site_said, ce_said = np.array([ce[2:] for ce in ces], dtype=np.int64).reshape(-1, 3).T
    order = np.argsort(ids)
    order = order[np.isin(ce_ids[order], serving)]
    by_id = np.argsort(serving)
    ce = by_id[np.searchsorted(serving, ce_ids[order], sorter=by_id)]
    levels = (
        LevelParameterSets(at_site.parameter_sets, site_said[ce]),
        LevelParameterSets(at_ce.parameter_sets, ce_said[ce]),
        LevelParameterSets(at_queue.parameter_sets, said[order]),
    )
    names = names[order]
    by_name = np.lexsort((names.astype(np.str_), ce))
    return Described(
        supply=Supply(ids[order], levels, kinds=kinds),
        ces=[ce[:2] for ce in ces],
        row=by_name,
        ce=ce[by_name],
        name=names[by_name],
    )


def _columns_of_queues(
    parameter_sets: ParameterSets, at_queue: "_DistinctSets"
) -> tuple[Indexes, Indexes, Indexes, NDArray[np.object_]]:
    """Return the primary keys of the queues and of their CEs, the positions of their parameter sets, and their names.

    With numpy, because there may be twenty thousand queues.
    """
    groups: list[tuple[Indexes, Indexes, Indexes, list[str]]] = [(_NONE, _NONE, _NONE, [])]
    for *own, ids_as_text, ce_ids_as_text, names_as_json in parameter_sets.queues:
        alike = _numbers(ids_as_text)
        position = np.full(len(alike), at_queue.position(*own))
        groups.append((alike, _numbers(ce_ids_as_text), position, json.loads(names_as_json)))
    ids, ce_ids, said = (np.concatenate([group[column] for group in groups]) for column in range(3))
    return ids, ce_ids, said, np.array(list(chain.from_iterable(names for *_, names in groups)), dtype=np.object_)


def _numbers(text: str) -> Indexes:
    return np.fromstring(text, dtype=np.int64, sep=",")


class _DistinctSets:
    """The distinct parameter sets of one level; equal ones are parsed once."""

    def __init__(self) -> None:
        self.parameter_sets: list[Parameters] = []
        self._positions: dict[tuple[str, str], int] = {}

    def position(self, general: str, of_vo: str) -> int:
        """Return the position of the parameter set with these JSON texts: for all VOs, and for this one."""
        key = (general, of_vo)
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self.parameter_sets)
            self.parameter_sets.append(_parameter_set(general, of_vo))
        return position


#: If one site of a thousand changes, the others are not parsed again.
@lru_cache(maxsize=10_000)
def _parameter_set(general: str, of_vo: str) -> Parameters:
    """Return the parameter set with these JSON texts (for all VOs, and for this one), in canonical form."""
    own = LevelParameters.read(json.loads(general), {"": json.loads(of_vo)}, vo="")
    return MappingProxyType(dict(inherit(_NO_PARAMETERS, own)))
