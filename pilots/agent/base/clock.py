"""The monotonic clock for leases and limits, which also counts while the machine is suspended."""

import time

# NB: leases expire while a virtual machine is suspended; CLOCK_MONOTONIC stands still then.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Return the seconds since a fixed moment in the past."""
    return time.clock_gettime(_CLOCK)
