"""Samples of the usage of a payload, as they are stored: four numbers of two bytes (``matching/sql/attempts.sql``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, expm1
from typing import Final

#: Stands for the numbers of a sample that is not taken yet.
FREE: Final = -2
STEP_PARTS: Final = 1024
CODES_OF_LOGARITHM: Final = 1600
_NUMBERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The usage of a payload at one time of its attempt, within 0.03 %; None: not measured."""

    #: Since the start, within a thousandth of the step.
    at_s: int
    cpu_s: int | None
    memory_mb: int | None
    disk_mb: int | None


def samples_of(numbers: Sequence[int], *, step_s: int) -> list[Sample]:
    """Return the samples that are stored, by time.

    Args:
        numbers: of each sample its time, in 1,024ths of the step, and the codes of CPU time, memory and disk.
        step_s: the step.
    """
    taken = numbers[: numbers.index(FREE)] if FREE in numbers else numbers
    columns = (taken[place::_NUMBERS] for place in range(_NUMBERS))
    return [
        Sample(
            at_s=ceil(time * step_s / STEP_PARTS),
            cpu_s=_amount(cpu),
            memory_mb=_amount(memory),
            disk_mb=_amount(disk),
        )
        for time, cpu, memory, disk in zip(*columns, strict=True)
    ]


def _amount(code: int) -> int | None:
    return None if code < 0 else round(expm1(code / CODES_OF_LOGARITHM))
