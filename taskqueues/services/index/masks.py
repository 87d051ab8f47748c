"""What the conditions of a match say of all task queues, remembered for what pilots offer again and again."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from threading import Lock

import numpy as np

from taskqueues.domain.columns import Columns, Mask, Rows
from taskqueues.domain.conditions import CONDITIONS, MatchCondition
from taskqueues.domain.offer import ResourceOffer

#: A thousand masks of ten thousand queues. Offers are many, but sites, platforms and segments are few.
REMEMBERED_BYTES = 10 * 1024 * 1024


class Masks:
    """The masks of one set of columns, by condition and by what the condition looks at; threads share them."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        #: {CPU segment in seconds: its rows}, the highest first.
        self.segments: Mapping[int, slice] = columns.segments()
        #: By condition: what of an offer it looks at.
        self._looks_at: Mapping[str, Callable[[ResourceOffer], Hashable]] = {
            name: self._class_by(condition) for name, condition in CONDITIONS.items() if condition.looks_at
        }
        #: None: all queues.
        self._masks: OrderedDict[Hashable, Mask | None] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def fitting(self, offer: ResourceOffer, *, among: slice) -> Rows:
        """Return the rows *among* which every condition accepts *offer*, ascending."""
        first, end, _ = among.indices(len(self.columns))
        fits: Mask | None = None
        for mask in self._accepted(offer).values():
            if mask is not None:
                fits = mask[among] if fits is None else fits & mask[among]
        return np.arange(first, end) if fits is None else first + fits.nonzero()[0]

    def accepting(self, offer: ResourceOffer, *, but_for: str) -> Mask:
        """Return of which queues every condition accepts *offer*, one condition not being asked."""
        fits = np.ones(len(self.columns), dtype=np.bool_)
        for name, mask in self._accepted(offer).items():
            if mask is not None and name != but_for:
                fits &= mask
        return fits

    def left_after_each(self, offer: ResourceOffer, *, among: Mask) -> dict[str, Mask]:
        """Return, by condition in their order, those *among* the queues that are left after it and all before it."""
        accepted = self._accepted(offer)
        fits, left = among, {}
        for name in CONDITIONS:
            mask = accepted.get(name)
            fits = fits if mask is None else fits & mask
            left[name] = fits
        return left

    def _accepted(self, offer: ResourceOffer) -> Mapping[str, Mask | None]:
        """Return, by condition, of which queues it accepts *offer*; None, or no entry: of all."""
        keys = {name: (name, looks_at(offer)) for name, looks_at in self._looks_at.items()}
        with self._lock:
            known = {name: self._masks[key] for name, key in keys.items() if key in self._masks}
            for name in known:
                self._masks.move_to_end(keys[name])
        for name, key in keys.items():
            if name not in known:
                known[name] = self._remember(key, CONDITIONS[name].accepts(self.columns, offer))
        return known

    def _remember(self, key: Hashable, mask: Mask | None) -> Mask | None:
        if mask is not None and mask.all():
            mask = None
        with self._lock:
            if key not in self._masks:
                self._masks[key] = mask
                self._bytes += 0 if mask is None else mask.nbytes
            while self._bytes > REMEMBERED_BYTES and len(self._masks) > len(CONDITIONS):
                _, oldest = self._masks.popitem(last=False)
                self._bytes -= 0 if oldest is None else oldest.nbytes
        return mask

    def _class_by(self, condition: MatchCondition) -> Callable[[ResourceOffer], Hashable]:
        """Return what tells offers apart of which the condition may say different things."""
        if not condition.is_amount:
            return attrgetter(*condition.looks_at)
        # The highest amount that a queue asks and the offer reaches: raw ones, such as CPU time left, never repeat.
        (amount,) = condition.looks_at
        return partial(_highest, np.unique(getattr(self.columns, amount)).tolist(), attrgetter(amount))


def _highest(asked: Sequence[int], offered: Callable[[ResourceOffer], int | None], offer: ResourceOffer) -> int:
    """Return the highest of the ascending numbers that is not above what is offered; -1: there is none."""
    amount = offered(offer)
    below = len(asked) if amount is None else bisect_right(asked, amount)
    return asked[below - 1] if below else -1
