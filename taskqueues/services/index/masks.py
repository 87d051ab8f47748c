"""What the conditions of a match say of all task queues, remembered for what pilots offer again and again."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import Columns, Mask, Rows
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer

#: A thousand masks of ten thousand queues. Offers are many, but sites, platforms and segments are few.
REMEMBERED_BYTES = 10 * 1024 * 1024


class Masks:
    """The masks of one set of columns, by condition and by what the condition looks at; threads share them."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        #: {CPU segment in seconds: its rows}, the highest first.
        self.segments: Mapping[int, slice] = columns.segments()
        self._asked = {name: np.unique(getattr(columns, name)) for name in ("processors", "memory_mb")}
        self._masks: OrderedDict[Hashable, Mask | None] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def fitting(self, offer: ResourceOffer, *, among: slice) -> Rows:
        """Return the rows *among* which every condition accepts *offer*, ascending."""
        offer = self._reduced(offer)
        fits: Mask | None = None
        for name in CONDITIONS:
            accepted = self._accepted(name, offer)
            if accepted is not None:
                fits = accepted[among] if fits is None else fits & accepted[among]
        first = among.indices(len(self.columns))[0]
        return first + np.flatnonzero(np.ones(len(self.columns), dtype=np.bool_)[among] if fits is None else fits)

    def _accepted(self, name: str, offer: ResourceOffer) -> Mask | None:
        condition = CONDITIONS[name]
        key = (name, *(getattr(offer, field) for field in condition.looks_at))
        with self._lock:
            if key in self._masks:
                self._masks.move_to_end(key)
                return self._masks[key]
        mask = condition.accepts(self.columns, offer)
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

    def _reduced(self, offer: ResourceOffer) -> ResourceOffer:
        """Return the offer to which the same queues fit, with numbers that queues ask for: raw ones never repeat."""
        return replace(
            offer,
            cpu_time_s=next((segment for segment in self.segments if segment <= offer.cpu_time_s), -1),
            processors=_highest(self._asked["processors"], offer.processors),
            memory_mb=_highest(self._asked["memory_mb"], offer.memory_mb),
        )


def _highest(values: NDArray[np.int64], offered: int) -> int:
    """Return the highest of the ascending *values* that is not above what is offered; -1: there is none."""
    below = int(np.searchsorted(values, offered, side="right"))
    return int(values[below - 1]) if below else -1
