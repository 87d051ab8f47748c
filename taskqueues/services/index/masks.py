"""Results of the conditions for all task queues, kept for recurring offers.

Each is kept as one integer with a bit for each row: an eighth of the memory of truth values. And integers are combined
without releasing the interpreter's lock. numpy releases it at each operation on more than 500 values, and a thread that
does so beside others has to wait each time until it gets the lock back.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from threading import Lock

import numpy as np

from taskqueues.domain.columns import Columns, Mask, Rows
from taskqueues.domain.conditions import CONDITIONS, MatchCondition
from taskqueues.domain.offer import ResourceOffer

#: Bytes: six thousand masks of ten thousand task queues. Offers are many, but sites, platforms and segments are few.
REMEMBERED_BYTES = 10 * 1024 * 1024
#: Of these, for a mask beside its bits: its key, with the values of the offer that it is for.
_BYTES_OF_KEY = 400


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
        self._all_rows = (1 << len(columns)) - 1
        #: Bits of rows. None: all task queues.
        self._masks: OrderedDict[Hashable, int | None] = OrderedDict()
        self._bytes_of_one = -(-len(columns) // 8)
        self._most = max(len(CONDITIONS), REMEMBERED_BYTES // (self._bytes_of_one + _BYTES_OF_KEY))
        self._lock = Lock()

    def fitting(self, offer: ResourceOffer, *, among: Iterable[slice]) -> Iterator[Rows]:
        """Yield, for each of these parts, its rows for which every condition accepts *offer*, ascending."""
        fits = self.accepting(offer)
        for rows in among:
            first, _, _ = rows.indices(len(fits))
            yield first + fits[rows].nonzero()[0]

    def accepting(self, offer: ResourceOffer, *, but_for: str | None = None) -> Mask:
        """Return the task queues for which every condition, or every one but one, accepts *offer*."""
        fits = self._all_rows
        for name, accepted in self._accepted(offer).items():
            if accepted is not None and name != but_for:
                fits &= accepted
        bits = np.frombuffer(fits.to_bytes(self._bytes_of_one, "little"), dtype=np.uint8)
        return np.unpackbits(bits, count=len(self.columns), bitorder="little").view(np.bool_)

    def numbers_left(self, offer: ResourceOffer, *, among: Mask) -> dict[str, int]:
        """Return, by condition in their order, how many task queues *among* these it and all before it accept."""
        every, left, numbers = self._accepted(offer), _bits_of(among), {}
        for name in CONDITIONS:
            accepted = every.get(name)
            left = left if accepted is None else left & accepted
            numbers[name] = left.bit_count()
        return numbers

    def _accepted(self, offer: ResourceOffer) -> Mapping[str, int | None]:
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

    def _remember(self, key: Hashable, mask: Mask | None) -> int | None:
        bits = None if mask is None or mask.all() else _bits_of(mask)
        with self._lock:
            self._masks[key] = bits
            while len(self._masks) > self._most:
                self._masks.popitem(last=False)
        return bits

    def _class_by(self, condition: MatchCondition) -> Callable[[ResourceOffer], Hashable]:
        """Return the key function of the offers that the condition may treat differently."""
        if not condition.numbers:
            return attrgetter(*condition.looks_at)
        # The highest required amounts that the offer reaches: raw ones, such as CPU time left, never repeat.
        reached = [
            partial(_highest, np.unique(self.columns.numbers[number]).tolist(), attrgetter(field))
            for field, number in zip(condition.looks_at, condition.numbers, strict=True)
        ]
        return reached[0] if len(reached) == 1 else lambda offer: tuple(each(offer) for each in reached)


def _bits_of(mask: Mask) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _highest(required: Sequence[int], offered: Callable[[ResourceOffer], int | None], offer: ResourceOffer) -> int:
    """Return the highest of the ascending numbers that is not above the offer; -1: there is none."""
    amount = offered(offer)
    below = len(required) if amount is None else bisect_right(required, amount)
    return required[below - 1] if below else -1
