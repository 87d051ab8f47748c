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
from pilots.backends.interface import BatchId, BatchState, Handle, PilotOrder, SubmitResult

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: Names in the directory of each pilot, where its script starts.
SECRET_FILE, WORK_DIRECTORY = "secret", "work"
_OUTPUT_BYTES = 2**20


class _Counted(msgspec.Struct):
    """The answer of ``host.count``."""

    living: int
    processors: int


class _Started(msgspec.Struct):
    """The answer of ``host.start`` for one pilot."""

    batch_id: BatchId = ""
    error: str = ""


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
        counted = self._ask(host.count, _Counted)
        most = self._max_processes or counted.processors
        return max(0, most - counted.living)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Start the pilots."""
        pilots = [
            {"stamp": order.stamp, "script": self.script(order), "secret": order.secret} for order in orders
        ]  # fmt: skip
        try:
            answers = self._ask(host.start, dict[str, _Started], pilots=pilots)
        except CommandLostError as error:
            logger.warning("pilots.answer_lost: %s", error, extra={"stamps": [order.stamp for order in orders]})
            answers = {}
        started = {order.stamp: answers.get(order.stamp, _Started()) for order in orders}
        return [SubmitResult(stamp=stamp, batch_id=one.batch_id, error=one.error) for stamp, one in started.items()]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return the states of the pilots."""
        stamps = [handle.stamp for handle in handles]
        states = self._ask(host.look, dict[str, BatchState], stamps=stamps)
        return {stamp: states[stamp] for stamp in stamps if stamp in states}

    def kill(self, handles: Collection[Handle]) -> None:
        """Kill the pilots; their supervisors end the payloads."""
        self._ask(host.kill, type(None), stamps=[handle.stamp for handle in handles])

    def output(self, handle: Handle) -> str:
        """Return the output of the pilot."""
        path = f"{self._directory}/{handle.stamp}/{host.LOG}"
        request = {"do": host.tail.__name__, "path": path, "size": _OUTPUT_BYTES}
        return ask_host(self._commands, request, str, python=self._python)

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the files of ended pilots except logs, and logs of pilots that ended 30 days ago."""
        self._ask(host.clean, type(None), stamps=[handle.stamp for handle in handles])

    def _ask(self, do: Callable[..., object], answers: type[T], **arguments: object) -> T:
        request = {"do": do.__name__, "directory": self._directory, **arguments}
        return ask_host(self._commands, request, answers, python=self._python)
