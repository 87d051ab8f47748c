"""Free memory that a long-lived process keeps."""

import platform
import subprocess
import sys
from typing import Final

import pytest

#: Prints the number of arenas after twelve threads have allocated at once, then whether a block of 1 MB is mapped after
#: one of 8 MB was freed, then whether objects are left out of garbage collections.
PROGRAM: Final = """
import ctypes, gc, sys
from threading import Barrier, Thread

if sys.argv[1] == "settled":
    from wms.kernel.allocator import settle_memory
    settle_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
together = Barrier(12)

def allocate():
    together.wait()
    block = libc.malloc(10_000)
    together.wait()
    libc.free(block)

threads = [Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc.mallinfo2.restype = Info
libc.free(libc.malloc(8_000_000))
before = libc.mallinfo2().hblkhd
block = libc.malloc(1_000_000)
print(libc.mallinfo2().hblkhd > before, gc.get_freeze_count() > 0, flush=True)
file = libc.fdopen(1, b"w")
libc.malloc_info(0, file)
libc.fflush(file)
"""


def _run(mode: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
    first, _, info = done.stdout.partition("\n")
    return first, info.count("<heap ")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="The settings are those of glibc.")
def test_threads_share_few_arenas_and_large_blocks_are_given_back() -> None:
    settled, arenas = _run("settled")
    assert settled == "True True"
    assert arenas <= 2
    unsettled, own_arenas = _run("as it is")
    assert unsettled == "False False"
    assert own_arenas > 2
