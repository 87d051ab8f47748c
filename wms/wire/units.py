"""Times and sizes with their units, as options and descriptions have them: 24h, 2GB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

#: {unit: how many of the smallest it is}; empty: the number has no unit.
SECONDS = MappingProxyType({"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400})
MEGABYTES = MappingProxyType({"": 1, "mb": 1, "gb": 1000, "tb": 1_000_000})
_AMOUNT = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")


def in_units(text: str, units: Mapping[str, int]) -> int | None:
    """Return the number in the smallest of *units*, such as 2000 of ``2GB``; None: it is not understood."""
    found = _AMOUNT.fullmatch(text)
    factor = None if found is None else units.get(found[2].lower())
    return None if found is None or factor is None else int(found[1]) * factor
