"""The bound of a pilot's resources, whatever it offers: the slot of its queue."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self


class SlotBound(NamedTuple):
    """The maximum of a pilot's offer, and of the requirements of its open leases together; None: not bounded."""

    processors: int
    memory_mb: int | None = None
    gpus: int | None = None
    disk_mb: int | None = None

    @classmethod
    def smallest(cls, bounds: Iterable[Self]) -> Self:
        """Return the smallest amounts of *bounds*, at least one."""
        columns = zip(*bounds, strict=True)
        return cls._make(min((most for most in column if most is not None), default=None) for column in columns)

    def exceeded_by(self, offered: object) -> Mapping[str, Any]:
        """Return the bounds, by name, that *offered*, an object with attributes of these names, exceeds."""
        named = self._asdict().items()
        return {name: most for name, most in named if most is not None and getattr(offered, name) > most}
