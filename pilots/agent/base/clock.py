"""The clock by which leases and limits are measured: it never steps back, and goes on while the machine sleeps."""

import time

# NB: a lease also runs out while a laptop or a virtual machine is suspended; CLOCK_MONOTONIC would stand still.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Return seconds since some fixed moment of the past."""
    return time.clock_gettime(_CLOCK)
