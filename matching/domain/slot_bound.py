"""The bound of a pilot's resources, whatever it offers: the slot of its queue."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

#: {amount: the most that a pilot may offer of it, and its open leases may require together}; others are not bounded.
SlotBound: TypeAlias = Mapping[str, int]


def smallest(bounds: Iterable[SlotBound]) -> SlotBound:
    """Return the smallest amounts of *bounds*."""
    together: dict[str, int] = {}
    for bound in bounds:
        together |= {name: min(most, together.get(name, most)) for name, most in bound.items()}
    return together


def exceeded_by(offered: object, bound: SlotBound) -> dict[str, Any]:
    """Return the part of *bound* that *offered*, an object with attributes of these names, exceeds."""
    return {name: most for name, most in bound.items() if getattr(offered, name) > most}
