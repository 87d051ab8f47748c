"""One task queue judged against many offers: which conditions of the match do not accept it for each of them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from taskqueues.domain.columns import Columns
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer


class Judge:
    """The verdicts of the conditions of the match on one task queue; offers that are alike are judged once.

    Twenty thousand queues are judged: those of a place have that in common, and many slots are the same elsewhere.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        #: For each part of the conditions: {what it looks at: which of them fail}.
        self._failed: Sequence[dict[Hashable, frozenset[str]]] = [{} for _ in _PARTS]
        #: By condition: {what it looks at: (its verdict, an offer of the kind)}.
        self._known: Mapping[str, dict[Hashable, tuple[bool, ResourceOffer]]] = {name: {} for name in CONDITIONS}

    def accepts(self, name: str, offer: ResourceOffer) -> bool:
        """Return whether one condition accepts the task queue for the offer."""
        known, looked_at = self._known[name], _LOOK[name](offer)
        if looked_at not in known:
            mask = CONDITIONS[name].accepts(self._columns, offer)
            known[looked_at] = (mask is None or bool(mask.all()), offer)
        return known[looked_at][0]

    def failed(self, offer: ResourceOffer) -> tuple[str, ...]:
        """Return the conditions, in their order, that do not accept the task queue for the offer."""
        failed: frozenset[str] = frozenset()
        for known, (names, look) in zip(self._failed, _PARTS, strict=True):
            looked_at = look(offer)
            of_part = known.get(looked_at)
            if of_part is None:
                of_part = known[looked_at] = frozenset(name for name in names if not self.accepts(name, offer))
            failed |= of_part
        return tuple(name for name in CONDITIONS if name in failed) if failed else ()

    def kinds(self, name: str) -> list[ResourceOffer]:
        """Return one offer of each kind that the condition was asked about."""
        return [offer for _, offer in self._known[name].values()]

    def would_be_welcome(self, offer: ResourceOffer) -> bool:
        """Return whether the site would be right if it took jobs."""
        return self.accepts("site", replace(offer, accepting=True))


def _look(names: Sequence[str]) -> Callable[[ResourceOffer], Hashable]:
    return attrgetter(*names) if names else lambda _offer: None


_LOOK: Mapping[str, Callable[[ResourceOffer], Hashable]] = {
    name: _look(condition.looks_at) for name, condition in CONDITIONS.items()
}
_OF_PLACE = frozenset(
    {"site", "possible_sites", "accepting", "ce", "possible_ces", "throttled", "refused", "full_limits"}
)
#: What opens by itself, sooner or later.
CLOSINGS = frozenset({"site", "throttle", "limit"})


def _part(*, of_place: bool) -> tuple[Sequence[str], Callable[[ResourceOffer], Hashable]]:
    """Return the conditions that look at nothing but the place, or the others, and all that they look at."""
    names = [name for name, each in CONDITIONS.items() if (set(each.looks_at) <= _OF_PLACE) is of_place]
    return names, _look(sorted({field for name in names for field in CONDITIONS[name].looks_at}))


_PARTS = (_part(of_place=True), _part(of_place=False))
