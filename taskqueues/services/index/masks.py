"""Results of the conditions for all task queues, kept for recurring offers."""

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

#: Bytes: a thousand masks of ten thousand task queues. Offers are many, but sites, platforms and segments are few.
REMEMBERED_BYTES = 10 * 1024 * 1024


class Masks:
    """The masks of one set of columns, by condition and by the values that it uses; threads share them."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        #: {CPU segment in seconds: its rows}, the highest first.
        self.segments: Mapping[int, slice] = columns.segments()
        #: By condition: the function that returns the values of an offer that it uses.
        self._looks_at: Mapping[str, Callable[[ResourceOffer], Hashable]] = {
            name: self._class_by(condition) for name, condition in CONDITIONS.items() if condition.looks_at
        }
        #: None: all task queues.
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
        """Return the task queues for which every condition but one accepts *offer*."""
        fits = np.ones(len(self.columns), dtype=np.bool_)
        for name, mask in self._accepted(offer).items():
            if mask is not None and name != but_for:
                fits &= mask
        return fits

    def left_after_each(self, offer: ResourceOffer, *, among: Mask) -> dict[str, Mask]:
        """Return, by condition in their order, the task queues *among* these left after it and all before it."""
        accepted = self._accepted(offer)
        fits, left = among, {}
        for name in CONDITIONS:
            mask = accepted.get(name)
            fits = fits if mask is None else fits & mask
            left[name] = fits
        return left

    def _accepted(self, offer: ResourceOffer) -> Mapping[str, Mask | None]:
        """Return, by condition, the task queues for which it accepts *offer*; None, or no entry: all."""
        keys = {name: (name, looks_at(offer)) for name, looks_at in self._looks_at.items()}
        with self._lock:
            masks = {name: self._masks[key] for name, key in keys.items() if key in self._masks}
            for name in masks:
                self._masks.move_to_end(keys[name])
        for name, key in keys.items():
            if name not in masks:
                masks[name] = self._remember(key, CONDITIONS[name].accepts(self.columns, offer))
        return masks

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
        """Return the key function of the offers that the condition may treat differently."""
        if not condition.is_amount:
            return attrgetter(*condition.looks_at)
        # The highest required amount that the offer reaches: raw ones, such as CPU time left, never repeat.
        (amount,) = condition.looks_at
        return partial(_highest, np.unique(self.columns.numbers[amount]).tolist(), attrgetter(amount))


def _highest(required: Sequence[int], offered: Callable[[ResourceOffer], int | None], offer: ResourceOffer) -> int:
    """Return the highest of the ascending numbers that is not above the offer; -1: there is none."""
    amount = offered(offer)
    below = len(required) if amount is None else bisect_right(required, amount)
    return required[below - 1] if below else -1
