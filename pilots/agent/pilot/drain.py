"""Whether the pilot is to take no more jobs and leave when those that run have ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pilots.agent.base.wakeup import WakeupPipe

#: In the work directory, where nobody named another.
DRAIN_FILE = "drain"
#: The file is looked for at least so often; a signal is noticed at once.
LOOK_EVERY_S = 10.0
#: Sent by the process of a job that hears the server's order, or by a batch system that warns of the slot's end
#: (Slurm: ``--signal=USR1@600``).
SIGNAL = signal.SIGUSR1


class DrainRequest:
    """Looks for the file, and takes the signal."""

    def __init__(self, file: Path, wakeup: WakeupPipe) -> None:
        self._file = file
        self._wakeup = wakeup
        self._signaled = False

    def listen(self) -> None:
        """Take the signal from now on."""
        signal.signal(SIGNAL, self._on_signal)

    def reason(self) -> str | None:
        """Return who wants it, for the log; None: nobody does."""
        if self._signaled:
            return "by order"
        return f"by the file {self._file}" if self._is_there() else None

    def _is_there(self) -> bool:
        try:
            owner = self._file.lstat().st_uid
        except OSError:
            return False
        # In a directory that is everybody's, such as /tmp, strangers must not drain it.
        return owner in {0, os.geteuid()}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signaled = True
        self._wakeup.wake()


def tell(parent: int) -> Callable[[], None]:
    """Return what a job's process calls to drain the pilot, its parent."""

    def tell_parent() -> None:
        if os.getppid() == parent:
            os.kill(parent, SIGNAL)

    return tell_parent
