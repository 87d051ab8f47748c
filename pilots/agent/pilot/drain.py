"""Draining: the pilot takes no more jobs and ends when the running ones have ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pilots.agent.base.wakeup import WakeupPipe

#: Default name of the drain file, in the work directory.
DRAIN_FILE = "drain"
#: Longest time in seconds between two checks for the file; a signal is noticed at once.
LOOK_EVERY_S = 10.0
#: Sent by the process of a job that receives the server's command, or by a batch system before the end of the slot
#: (Slurm: ``--signal=USR1@600``).
SIGNAL = signal.SIGUSR1


class DrainRequest:
    """A request to drain, by a file or a signal."""

    def __init__(self, file: Path, wakeup: WakeupPipe) -> None:
        self._file = file
        self._wakeup = wakeup
        self._signaled = False

    def listen(self) -> None:
        """Install the handler of the signal."""
        signal.signal(SIGNAL, self._on_signal)

    def reason(self) -> str | None:
        """Return the source of the request, for the log; None: there is none."""
        if self._signaled:
            return "by order"
        return f"by the file {self._file}" if self._is_there() else None

    def _is_there(self) -> bool:
        try:
            owner = self._file.lstat().st_uid
        except OSError:
            return False
        # In a shared directory such as /tmp other users must not drain the pilot.
        return owner in {0, os.geteuid()}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signaled = True
        self._wakeup.wake()


def signal_to(parent: int) -> Callable[[], None]:
    """Return a function with which the process of a job drains the pilot, its parent."""

    def send() -> None:
        if os.getppid() == parent:
            os.kill(parent, SIGNAL)

    return send
