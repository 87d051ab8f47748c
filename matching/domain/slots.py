"""What a pilot may have at once, whatever it offers: the slot of its queue."""

from collections.abc import Iterable
from typing import NamedTuple, Self


class SlotBound(NamedTuple):
    """The most that a pilot offers, and that the jobs of its open leases ask for together; None: not bounded."""

    processors: int
    memory_mb: int | None = None
    gpus: int | None = None
    disk_mb: int | None = None

    @classmethod
    def of_queue(cls, *, processors: int, memory_mb: int, gpus: int, disk_mb: int) -> Self:
        """Return the bound of a queue's slot; of memory, GPUs and disk, 0 is what a queue has that says nothing."""
        return cls(processors, memory_mb or None, gpus or None, disk_mb or None)

    @classmethod
    def smallest(cls, bounds: Iterable[Self]) -> Self:
        """Return what all of *bounds*, at least one, allow."""
        columns = zip(*bounds, strict=True)
        return cls._make(min((most for most in column if most is not None), default=None) for column in columns)
