"""Comparison of one task queue with many offers: the conditions of the match that fail for each."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from taskqueues.domain.columns import Columns
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer


class Judge:
    """The results of all conditions for one task queue; similar offers are evaluated once.

    Up to twenty thousand queues are compared: those of a site share its values, and many slots are otherwise equal.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        #: For each part of the conditions: {values of the offer: conditions that fail}.
        self._failed: Sequence[dict[Hashable, frozenset[str]]] = [{} for _ in _PARTS]
        #: By condition: {values of the offer: (result, an offer with these values)}.
        self._results: Mapping[str, dict[Hashable, tuple[bool, ResourceOffer]]] = {name: {} for name in CONDITIONS}

    def accepts(self, name: str, offer: ResourceOffer) -> bool:
        """Return whether one condition accepts the task queue for the offer."""
        results, values = self._results[name], _LOOK[name](offer)
        if values not in results:
            mask = CONDITIONS[name].accepts(self._columns, offer)
            results[values] = (mask is None or bool(mask.all()), offer)
        return results[values][0]

    def failed(self, offer: ResourceOffer) -> tuple[str, ...]:
        """Return the conditions, in their order, that refuse the offer."""
        failed: frozenset[str] = frozenset()
        for results, (names, look) in zip(self._failed, _PARTS, strict=True):
            values = look(offer)
            of_part = results.get(values)
            if of_part is None:
                of_part = results[values] = frozenset(name for name in names if not self.accepts(name, offer))
            failed |= of_part
        return tuple(name for name in CONDITIONS if name in failed) if failed else ()

    def unmet(self, offer: ResourceOffer) -> tuple[str, ...]:
        """Return the conditions, in their order, that refuse the offer and do not change by themselves.

        A place that takes no jobs fails the condition on sites, even if its site is the required one.
        """
        failed = self.failed(offer)
        passing = CLOSINGS if "site" in failed and self.may_be_accepted(offer) else CLOSINGS - {"site"}
        return tuple(name for name in failed if name not in passing)

    def kinds(self, name: str) -> list[ResourceOffer]:
        """Return one offer of each kind that the condition was evaluated for."""
        return [offer for _, offer in self._results[name].values()]

    def may_be_accepted(self, offer: ResourceOffer) -> bool:
        """Return whether the site would be accepted if it took jobs."""
        return self.accepts("site", replace(offer, accepting=True))


def _look(names: Sequence[str]) -> Callable[[ResourceOffer], Hashable]:
    return attrgetter(*names) if names else lambda _offer: None


_LOOK: Mapping[str, Callable[[ResourceOffer], Hashable]] = {
    name: _look(condition.looks_at) for name, condition in CONDITIONS.items()
}
_OF_PLACE = frozenset(
    {"site", "possible_sites", "accepting", "ce", "possible_ces", "throttled", "refused", "full_limits"}
    | {"wall_time_to_downtime_s", "cpu_time_to_downtime_s"}
)
#: Conditions that can change by themselves.
CLOSINGS = frozenset({"site", "downtime", "throttle", "limit"})


def _part(*, of_place: bool) -> tuple[Sequence[str], Callable[[ResourceOffer], Hashable]]:
    """Return the conditions that use only the place, or the others, and the function of the values that they use."""
    names = [name for name, each in CONDITIONS.items() if (set(each.looks_at) <= _OF_PLACE) is of_place]
    return names, _look(sorted({field for name in names for field in CONDITIONS[name].looks_at}))


_PARTS = (_part(of_place=True), _part(of_place=False))
