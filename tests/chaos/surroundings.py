"""The surroundings of the system that a run changes: a disk that can be full, and clocks that can be stepped."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

_NAMESPACE: Final = "WMS_CHAOS_NAMESPACE"
_ROOM_MB: Final = 4096
#: From <linux/mount.h>.
_MS_REMOUNT: Final = 32
_MNT_DETACH: Final = 2
#: The kernel's largest pid_max, as in clock.c.
_PROCESSES: Final = 4_194_304


def enter_mount_namespace(module: str) -> None:
    """Run this program again in a mount namespace of its own, so that its disk is nobody else's and ends with it.

    Only as root: in a user namespace the directories of root belong to nobody, and the system uses none of these.
    """
    if os.geteuid() != 0 or _NAMESPACE in os.environ:
        return
    unshare = [shutil.which("unshare") or "unshare", "--mount"]
    allowed = subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0
    os.environ[_NAMESPACE] = "entered" if allowed else ""
    if allowed:
        os.execv(unshare[0], [*unshare, sys.executable, "-m", module, *sys.argv[1:]])


class SmallDisk:
    """A tmpfs at a directory; is full when it is as small as what it holds."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory).encode()
        self.is_there = bool(os.environ.get(_NAMESPACE)) and self._mount(0, mb=_ROOM_MB)

    def fill(self) -> None:
        """Leave no room, with a little for what is being written in this moment."""
        state = os.statvfs(self._directory)
        used_kb = (state.f_blocks - state.f_bfree) * state.f_frsize // 1024
        if not any(self._mount(_MS_REMOUNT, kb=used_kb + spare_kb) for spare_kb in (0, 64, 1024)):
            raise OSError(f"{self._directory.decode()} cannot be made smaller")

    def empty(self) -> None:
        """Give the room back."""
        self._mount(_MS_REMOUNT, mb=_ROOM_MB)

    def remove(self) -> None:
        """Unmount it."""
        if self.is_there:
            ctypes.CDLL(None).umount2(self._directory, _MNT_DETACH)

    def _mount(self, flags: int, *, mb: int = 0, kb: int = 0) -> bool:
        size = f"size={mb}m" if mb else f"size={kb}k"
        library = ctypes.CDLL(None, use_errno=True)
        return bool(library.mount(b"chaos", self._directory, b"tmpfs", flags, f"{size},mode=0700".encode()) == 0)


class Clocks:
    """The clocks of the processes of the system; without a compiler they cannot be stepped."""

    def __init__(self, directory: Path) -> None:
        self._steps = directory / "clocks"
        self._library = directory / "clock.so"
        compiler = shutil.which("cc")
        source = Path(__file__).with_name("clock.c")
        self.are_there = (
            compiler is not None
            and subprocess.run(
                [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source)], check=False
            ).returncode
            == 0
        )
        with self._steps.open("wb") as file:
            file.truncate(4 * _PROCESSES)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the processes whose clocks may be stepped."""
        return {"LD_PRELOAD": str(self._library), "WMS_CHAOS_CLOCK": str(self._steps)} if self.are_there else {}

    def step(self, process: int, seconds: int) -> None:
        """Set the clock of a process off by so many seconds."""
        with self._steps.open("r+b") as file:
            file.seek(4 * process)
            file.write(struct.pack("=i", seconds))
