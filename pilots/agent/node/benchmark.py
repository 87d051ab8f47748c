"""The benchmark: speed of a core of this node, relative to the reference core that defines CPU time.

The reference (1.0) is one core of an Intel Xeon (Cascade Lake) at 2.5 GHz under CPython 3.11, alone on its chip. The
work is typical for payloads: integers, sorted floating-point numbers, large dictionaries, text. It is the same on all
nodes, so that they can be compared. The interpreter has an influence too: on one core, results differ by up to a third
between Python 3.9 and 3.13 and between builds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

#: Units of work per second of CPU time that the reference does.
REFERENCE_UNITS_PER_S = 450.0
#: Bounds of the speed; values beyond are errors of the measurement.
SLOWEST, FASTEST = 0.2, 5.0
#: Relative difference of two measurements of the same core.
ERROR = 0.1
#: CPU seconds of a measurement.
_CPU_S = 0.4
_NUMBERS = 2_000
_MODULUS = 2**521 - 1


@dataclass(frozen=True)
class Speed:
    """The speed of one core."""

    #: Units of work per second of CPU time; None: configured, not measured.
    units_per_s: float | None
    #: Speed relative to the reference core.
    factor: float


@lru_cache(maxsize=1)
def measured() -> Speed:
    """Return the speed of this node, measured once per pilot in about 0.4 s of CPU time.

    The median over many units, with the other cores of the chip under their present load.
    """
    durations_s: list[float] = []
    while sum(durations_s) < _CPU_S:
        began = time.thread_time()  # without other threads of the pilot
        unit_of_work()
        durations_s.append(max(time.thread_time() - began, 1e-6))
    units_per_s = 1 / sorted(durations_s)[len(durations_s) // 2]
    return Speed(round(units_per_s, 2), factor=clipped(units_per_s / REFERENCE_UNITS_PER_S))


def clipped(factor: float) -> float:
    """Return the factor, limited to SLOWEST and FASTEST."""
    return round(min(max(factor, SLOWEST), FASTEST), 3)


def unit_of_work() -> int:
    """Do one unit of work; return a constant number that depends on all of it."""
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
