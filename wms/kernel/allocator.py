"""The memory that a long-lived process has freed (ADR 92)."""

import ctypes
import gc
from typing import Final

# From <malloc.h>.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
#: Each arena keeps the most that was ever needed in it at once; by default each thread has its own.
_ARENAS: Final = 2
#: Larger blocks, such as bodies, are given back as soon as they are freed. By default glibc raises this to the largest
#: block that was ever freed, up to 32 MB, and keeps twice as much.
_MAPPED_FROM_BYTES: Final = 256 * 1024
_KEPT_AT_THE_END_BYTES: Final = 1024 * 1024


def settle_memory() -> None:
    """Keep little free memory; call it when the program is loaded, before its threads are started.

    The program's own objects are left out of garbage collections: a full run over them would stop a request for 60 ms.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_THE_END_BYTES)
    gc.collect()
    gc.freeze()
