"""Deadlines of tests: seconds of an idle reference machine, longer on a machine that is slower or loaded.

A deadline only ends a test that hangs; no assertion depends on a fixed number of seconds.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from pilots.agent.node.inspection import usable_processors

#: Numbers whose squares the piece of work adds up.
_PIECE = 10_000
#: CPU time of the piece on the reference machine: a core of a server of about 2020.
_REFERENCE_S = 0.0005
#: A blocking call cannot follow a load that grows while it blocks.
_MARGIN = 4.0
#: Seconds for which a measured slowness is used again.
_MEASURED_FOR_S = 0.2


def timed_piece() -> float:
    """Return the CPU seconds of a fixed piece of Python, about half a millisecond on the reference machine."""
    begun_s = time.thread_time()
    sum(number * number for number in range(_PIECE))
    return time.thread_time() - begun_s


def slowness() -> float:
    """Return the factor by which work takes longer now than on the idle reference machine; at least 1."""
    return max(1.0, timed_piece() / _REFERENCE_S) * max(1.0, _runnable() / usable_processors())


def cpu_within(seconds: float) -> float:
    """Return the limit, in CPU seconds of this machine, of work that takes at most *seconds* on the reference machine.

    Other processes also cost CPU time: they share caches, and the halves of a core.
    """
    return seconds * max(1.0, *(timed_piece() / _REFERENCE_S for _ in range(20)))


def within(seconds: float) -> float:
    """Return the time limit, in seconds of the clock, of a blocking call that takes at most *seconds* when idle."""
    return seconds * slowness() * _MARGIN


class Deadline:
    """A time limit that is extended as the machine gets slower.

    Args:
        seconds: the limit on the idle reference machine.
    """

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._measured_at = time.monotonic()

    def has_passed(self) -> bool:
        """Return whether the limit has passed; the time since the last call counts by the current slowness."""
        since_s = time.monotonic() - self._measured_at
        if since_s >= _MEASURED_FOR_S:
            self._left_s -= since_s / slowness()
            self._measured_at += since_s
        return self._left_s <= 0


def wait_for(
    condition: Callable[[], object],
    within_s: float = 60.0,
    *,
    every_s: float = 0.05,
    state: Callable[[], object] = lambda: "the condition did not become true in time",
) -> None:
    """Wait until the condition is true.

    Args:
        condition: is called every *every_s* seconds.
        within_s: limit on the idle reference machine.
        every_s: seconds of the clock.
        state: returns the text that a failure shows.

    Raises:
        AssertionError: the condition did not become true in time.
    """
    deadline = Deadline(within_s)
    while not condition():
        # A condition that became true after its last evaluation, just before the limit, still counts.
        if deadline.has_passed() and not condition():
            raise AssertionError(state())
        time.sleep(every_s)


def _runnable() -> float:
    """Return the number of runnable processes: now, or on average in the last minute if that is more."""
    running_now = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
    return max(float(running_now), os.getloadavg()[0])
