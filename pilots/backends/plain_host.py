"""Pilots as processes of a plain host without a batch system: the common part of ``local`` and ``ssh``.

A pilot outlives the process that started it, and its state is in its directory on the host (``host.py``), so any
process of the server can read it. A host that kills a user's processes after the last session (systemd's
KillUserProcesses) needs ``loginctl enable-linger`` for the user.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from pilots.backends import host
from pilots.backends.commands import CommandLostError, Commands, ask_host
from pilots.backends.interface import BatchState, Handle, PilotOrder, SubmitResult

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: Names in the directory of each pilot, where its script starts.
SECRET_FILE, WORK_DIRECTORY = "secret", "work"
_OUTPUT_BYTES = 2**20


class PlainHostBackend(ABC):
    """One plain host.

    Args:
        commands: execution on the host.
        directory: on the host, for pilots of this CE alone.
        python: interpreter on the host for ``host.py``.
        max_processes: the most pilots of all queues of the CE together; None: one per processor.
    """

    def __init__(self, commands: Commands, *, directory: str, python: str, max_processes: int | None) -> None:
        self._commands = commands
        self._directory = directory
        self._python = python
        self._max_processes = max_processes

    @abstractmethod
    def script(self, order: PilotOrder) -> str:
        """Return the pilot's shell script."""

    def capacity(self) -> int:
        """Return how many further pilots the host can take."""
        counted = self._ask(host.count)
        most = self._max_processes or counted["processors"]
        return max(0, most - counted["living"])

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Start the pilots."""
        pilots = [
            {"stamp": order.stamp, "script": self.script(order), "secret": order.secret} for order in orders
        ]  # fmt: skip
        try:
            answers = self._ask(host.start, pilots=pilots)
        except CommandLostError as error:
            logger.warning("pilots.answer_lost: %s", error, extra={"stamps": [order.stamp for order in orders]})
            answers = {}
        return [SubmitResult(stamp=order.stamp, **answers.get(order.stamp, {})) for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return the states of the pilots."""
        states = self._ask(host.look, stamps=[handle.stamp for handle in handles])
        return msgspec.convert(states, dict[str, BatchState])

    def kill(self, handles: Collection[Handle]) -> None:
        """Kill the pilots; their supervisors end the payloads."""
        self._ask(host.kill, stamps=[handle.stamp for handle in handles])

    def output(self, handle: Handle) -> str:
        """Return the output of the pilot."""
        path = f"{self._directory}/{handle.stamp}/{host.LOG}"
        return str(ask_host(self._commands, {"do": "tail", "path": path, "size": _OUTPUT_BYTES}, python=self._python))

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the files of ended pilots except logs, and logs of pilots that ended 30 days ago."""
        self._ask(host.clean, stamps=[handle.stamp for handle in handles])

    def _ask(self, do: Callable[..., T], **arguments: object) -> T:
        request = {"do": do.__name__, "directory": self._directory, **arguments}
        answer: T = ask_host(self._commands, request, python=self._python)
        return answer
