"""How fast a core of this node is, compared with the reference core by which CPU time is counted.

The reference, 1.0, is one core of an Intel Xeon of the Cascade Lake generation at 2.5 GHz under CPython 3.11, alone on
its chip. The work is of the kinds that payloads do much of: whole numbers, floating-point numbers in order, large
dictionaries, text. It is the same for everybody, so that two nodes can be compared. The interpreter counts as well:
from Python 3.9 to 3.13, and from one way of building it to another, the same core differs by up to a third.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

#: Units of work per second of CPU time that the reference does.
REFERENCE_UNITS_PER_S = 450.0
#: What is beyond is no core but a mistake of the measurement.
SLOWEST, FASTEST = 0.2, 5.0
#: How far two measurements of the same core lie apart.
ERROR = 0.1
_CPU_S = 0.4
_NUMBERS = 2_000
_MODULUS = 2**521 - 1


@dataclass(frozen=True)
class Speed:
    """Of one core."""

    #: Units of work per second of CPU time; None: not measured but told.
    units_per_s: float | None
    #: Reference-core seconds that it does in one second of its CPU time.
    factor: float


@lru_cache(maxsize=1)
def measured() -> Speed:
    """Return the speed of this node; worked for once in the life of the pilot, for about 0.4 s of CPU time.

    It is the median over many units: what a core gives while its neighbors on the chip work as they do.
    """
    taken_s: list[float] = []
    while sum(taken_s) < _CPU_S:
        began = time.thread_time()  # other threads of the pilot are none of the work
        unit_of_work()
        taken_s.append(max(time.thread_time() - began, 1e-6))
    units_per_s = 1 / sorted(taken_s)[len(taken_s) // 2]
    return Speed(round(units_per_s, 2), factor=clipped(units_per_s / REFERENCE_UNITS_PER_S))


def clipped(factor: float) -> float:
    """Return the factor within what a core can be."""
    return round(min(max(factor, SLOWEST), FASTEST), 3)


def unit_of_work() -> int:
    """Work; return a number that depends on all of it, always the same."""
    state = 12345
    numbers: list[float] = []
    counts: dict[int, int] = {}
    for index in range(_NUMBERS):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        numbers.append(state / 7.0)
        key = (index * 2654435761) % 9973
        counts[key] = counts.get(key, 0) + index
    numbers.sort()
    power = pow(int(numbers[_NUMBERS // 2]), 65537**20, _MODULUS)
    words = " ".join(map(str, counts.values())).replace("1", "one").split("one")
    return (power + len(words) + len(counts)) % 1_000_003
