"""Pilots as processes of a plain host, which has no batch system; what ``local`` and ``ssh`` have in common.

A pilot outlives whoever started it, and what became of it is in its directory on the host (see ``host.py``), so any
process of the server may look. A host that ends what a user leaves behind when the last session is over (systemd's
KillUserProcesses) needs ``loginctl enable-linger`` for the user.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pilots.backends import host
from pilots.backends.commands import CommandLostError, Commands, ask_host
from pilots.backends.interface import BatchState, Handle, PilotOrder, Presence, SubmitResult

logger = logging.getLogger(__name__)

#: In the directory of each pilot, where its script starts.
SECRET_FILE, WORK_DIRECTORY = "secret", "work"
_OUTPUT_BYTES = 2**20


class PlainHostBackend(ABC):
    """One plain host.

    Args:
        commands: reach it.
        directory: there, for pilots of this CE alone.
        python: interpreter there, for what has to be done on the host.
        max_processes: pilots at once, all queues of the CE together; None: one for each processor.
    """

    def __init__(self, commands: Commands, *, directory: str, python: str, max_processes: int | None) -> None:
        self._commands = commands
        self._directory = directory
        self._python = python
        self._max_processes = max_processes

    @abstractmethod
    def script(self, order: PilotOrder) -> str:
        """Return the shell script that becomes the pilot."""

    def capacity(self) -> int:
        """Return how many pilots it could take now."""
        counted = self._ask("count")
        most = self._max_processes or int(counted["processors"])
        return max(0, most - int(counted["living"]))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Start the pilots."""
        pilots = [
            {"stamp": order.stamp, "script": self.script(order), "secret": order.secret} for order in orders
        ]  # fmt: skip
        try:
            answers = self._ask("start", pilots=pilots)
        except CommandLostError as error:
            logger.warning("pilots.answer_lost: %s", error, extra={"stamps": [order.stamp for order in orders]})
            answers = {}
        return [SubmitResult(stamp=order.stamp, **answers.get(order.stamp, {})) for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return where the pilots are."""
        states = self._ask("look", stamps=[handle.stamp for handle in handles])
        return {
            stamp: BatchState(**{**state, "presence": Presence(state["presence"])}) for stamp, state in states.items()
        }

    def kill(self, handles: Collection[Handle]) -> None:
        """Kill the pilots; their supervisors end the payloads."""
        self._ask("kill", stamps=[handle.stamp for handle in handles])

    def output(self, handle: Handle) -> str:
        """Return what the pilot wrote."""
        path = f"{self._directory}/{handle.stamp}/{host.LOG}"
        return str(ask_host(self._commands, {"do": "tail", "path": path, "size": _OUTPUT_BYTES}, python=self._python))

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove all but the logs of the pilots that have ended, and the logs of those that did 30 days ago."""
        self._ask("clean", stamps=[handle.stamp for handle in handles])

    def _ask(self, do: str, **arguments: object) -> Any:  # noqa: ANN401 - as many kinds of answers as requests
        request = {"do": do, "directory": self._directory, **arguments}
        return ask_host(self._commands, request, python=self._python)
