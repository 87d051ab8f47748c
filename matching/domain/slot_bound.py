"""The bound of what a pilot has at once, whatever it offers: the slot of its queue."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self


class SlotBound(NamedTuple):
    """The most that a pilot offers, and that the jobs of its open leases ask for together; None: not bounded."""

    processors: int
    memory_mb: int | None = None
    gpus: int | None = None
    disk_mb: int | None = None

    @classmethod
    def smallest(cls, bounds: Iterable[Self]) -> Self:
        """Return what all of *bounds*, at least one, allow."""
        columns = zip(*bounds, strict=True)
        return cls._make(min((most for most in column if most is not None), default=None) for column in columns)

    def exceeded_by(self, offered: object) -> Mapping[str, Any]:
        """Return the bounds, by name, of the amounts of which *offered*, with attributes of these names, has more."""
        named = self._asdict().items()
        return {name: most for name, most in named if most is not None and getattr(offered, name) > most}
