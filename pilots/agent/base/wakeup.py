"""Wakes the main thread: rung by signals, by the heartbeat's thread, and by the end of the payload."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from pilots.agent.base.clock import monotonic


class WakeupPipe:
    """A pipe that anybody may write to and the main thread sleeps on."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        """Wake the main thread, now or as soon as it would sleep."""
        with suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._writing, b"!")

    def wait(self, timeout_s: float, *, also: socket.socket | None = None) -> bool:
        """Sleep until it is woken, *also* becomes readable, or the time is over; return whether *also* has."""
        watched: list[int | socket.socket] = [self._reading]
        if also is not None:
            watched.append(also)
        readable, _, _ = select.select(watched, [], [], max(0.0, timeout_s))
        if self._reading in readable:
            self._drain()
        return also is not None and also in readable

    def wake_on_signals(self) -> None:
        """Let every signal that Python handles ring, so that none is slept through."""
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def close(self) -> None:
        """Close the pipe, in a process that has a pipe of its own."""
        os.close(self._reading)
        os.close(self._writing)

    def _drain(self) -> None:
        try:
            while os.read(self._reading, 4096):
                pass
        except BlockingIOError:
            pass


class StopRequest:
    """Whether somebody wants the pilot to stop: the batch system at the end of its slot, or a person."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self, wakeup: WakeupPipe, *, at_once: Callable[[], object]) -> None:
        """Listen to nothing yet.

        Args:
            wakeup: woken by the signal.
            at_once: done by the first signal, also when the main thread is in the middle of a long call.
        """
        self._wakeup = wakeup
        self._at_once = at_once
        self.signal_name = ""
        #: By the pilot's clock; None: nobody does.
        self.asked_at: float | None = None

    def __bool__(self) -> bool:
        return self.asked_at is not None

    def listen(self) -> None:
        """Take the signals from now on."""
        self._wakeup.wake_on_signals()
        for number in self.SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.asked_at is None:
            self.signal_name, self.asked_at = signal.Signals(number).name, monotonic()
            self._at_once()
        self._wakeup.wake()
