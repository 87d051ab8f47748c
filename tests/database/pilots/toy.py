"""An additional kind of computing element in one file, which the setting WMS_BACKENDS names."""

import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from pilots.backends import options as read
from pilots.backends.interface import BatchState, CEDescription, Handle, PilotOrder, Presence, SubmitResult

#: Of the children of this process, which such a kind has for its batch system.
_processes: dict[str, "subprocess.Popen[bytes]"] = {}


class ToyBackend:
    """Pilots that are children of this process, write a line, and do what the option ``does`` names."""

    def __init__(self, description: CEDescription) -> None:
        read.refuse_unknown(description.options, known=("does", "slots"), kind="toy")
        self._does = read.text(description.options, "does", default="sleep 600")
        self._slots = read.number(description.options, "slots", default=2)
        self._directory = description.directory
        self._queues = description.queues

    def capacity(self) -> int:
        living = sum(process.poll() is None for process in _processes.values())
        return self._slots // max(queue.slot.processors for queue in self._queues) - living

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        return [SubmitResult(stamp=order.stamp, batch_id=self._start(order.stamp)) for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        known = {handle.stamp: _processes[handle.stamp] for handle in handles if handle.stamp in _processes}
        return {stamp: _state(process) for stamp, process in known.items()}

    def kill(self, handles: Collection[Handle]) -> None:
        for handle in handles:
            with suppress(KeyError, ProcessLookupError):
                os.killpg(_processes[handle.stamp].pid, signal.SIGKILL)

    def output(self, handle: Handle) -> str:
        return (self._directory / handle.stamp).read_text()

    def clean(self, handles: Collection[Handle]) -> None:
        for handle in handles:
            _processes.pop(handle.stamp).wait()

    def shortfalls(self) -> Sequence[str]:
        return [f"The queue {queue.slot.queue} is a toy." for queue in self._queues if queue.cpu_time_s > 3600]

    def _start(self, stamp: str) -> str:
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / stamp).open("wb") as log:
            _processes[stamp] = subprocess.Popen(
                ["/bin/sh", "-c", f"echo hello from a toy; {self._does}"], stdout=log, start_new_session=True
            )
        return str(_processes[stamp].pid)


def _state(process: "subprocess.Popen[bytes]") -> BatchState:
    code = process.poll()
    presence = Presence.RUNNING if code is None else Presence.ENDED
    return BatchState(presence=presence, batch_id=str(process.pid), exit_code=code)
