"""Measures of work: counts of function calls, the same on every machine, and CPU time with a generous limit."""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from tests.pace import cpu_within

#: One step of a request, for 64 kB, of the reference machine's CPU time.
STEP_S: Final = 0.1
#: A step that is not measured but only kept from the squares of 64,000, which take ten times as long.
FAR_TOO_LONG_S: Final = 1.0


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of functions that *work* calls, the library's and the interpreter's own included."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds that *work* takes."""
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def refuse_far_too_long(work: Callable[[], object]) -> None:
    """Assert that *work* takes less than FAR_TOO_LONG_S, also within single calls; the best of three counts."""
    most_s = cpu_within(FAR_TOO_LONG_S)
    assert any(cpu_of(work) < most_s for _ in range(3))


def refuse_long(work: Callable[[], object]) -> None:
    """Assert that *work* takes less than STEP_S: the median of five counts.

    The garbage collector ignores objects of earlier tests meanwhile, and sees only those that *work* makes.
    """
    gc.collect()
    gc.freeze()
    try:
        took_s = statistics.median(cpu_of(work) for _ in range(5))
    finally:
        gc.unfreeze()
    assert took_s < cpu_within(STEP_S)
