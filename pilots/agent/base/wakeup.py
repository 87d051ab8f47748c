"""Waking of the main thread by signals, by the thread of the heartbeat, and by the end of the payload."""

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
    """A pipe on which the main thread sleeps, and which others write to."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        """Wake the main thread, or prevent its next sleep."""
        with suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._writing, b"!")

    def wait(self, timeout_s: float, *, also: socket.socket | None = None) -> bool:
        """Sleep until wake(), *also* is readable, or *timeout_s* is over; return whether *also* is readable."""
        watched: list[int | socket.socket] = [self._reading]
        if also is not None:
            watched.append(also)
        readable, _, _ = select.select(watched, [], [], max(0.0, timeout_s))
        if self._reading in readable:
            self._drain()
        return also is not None and also in readable

    def wake_on_signals(self) -> None:
        """Wake the main thread on every signal with a handler."""
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def close(self) -> None:
        """Close the pipe, in a forked process that has its own."""
        os.close(self._reading)
        os.close(self._writing)

    def _drain(self) -> None:
        try:
            while os.read(self._reading, 4096):
                pass
        except BlockingIOError:
            pass


class StopRequest:
    """A request to stop, by a signal of the batch system or of a person."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self, wakeup: WakeupPipe, *, at_once: Callable[[], object]) -> None:
        """Prepare; no handler is installed yet.

        Args:
            wakeup: used by the handler.
            at_once: called by the handler at the first signal, even during a long call of the main thread.
        """
        self._wakeup = wakeup
        self._at_once = at_once
        self.signal_name = ""
        #: Monotonic time of the first signal; None: there was none.
        self.asked_at: float | None = None

    def __bool__(self) -> bool:
        return self.asked_at is not None

    def listen(self) -> None:
        """Install the handlers of the signals."""
        self._wakeup.wake_on_signals()
        for number in self.SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.asked_at is None:
            self.signal_name, self.asked_at = signal.Signals(number).name, monotonic()
            self._at_once()
        self._wakeup.wake()
