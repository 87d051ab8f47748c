"""The computing elements that directors send pilots to, each through the backend of its type."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pilots.agent_package import agent_package
from pilots.backends.interface import Backend, BackendError, BatchState, PilotOrder, Submission
from pilots.backends.local import LocalBackend
from resources.models import ComputingElement

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


def _local(ce: ComputingElement, directory: Path, server_url: str) -> Backend:
    own = directory / ce.site.name / ce.name
    return LocalBackend(own, server_url=server_url, program=agent_package().content)


#: What makes the backend of a CE, by its type; the arguments are the CE, a directory for all, and the server's address.
BACKENDS: Mapping[str, Callable[[ComputingElement, Path, str], Backend]] = MappingProxyType({"local": _local})


class Fleet:
    """The backends in use; kept from cycle to cycle, for those of local CEs know their children.

    No failure of a CE leaves here: whatever a backend does, the other CEs get their pilots.
    """

    def __init__(self, *, directory: Path, server_url: str) -> None:
        """Make no backend yet.

        Args:
            directory: where pilots of this machine work and log.
            server_url: where pilots reach the server.
        """
        self._directory = directory
        self._server_url = server_url
        self._backends: dict[int, Backend] = {}
        self._troubles: dict[int, str] = {}

    def capacity(self, ce: ComputingElement) -> int:
        """Return how many pilots the CE could take now; 0 when it cannot be asked."""
        return self._ask(ce, lambda backend: backend.capacity(), otherwise=lambda _: 0)

    def submit(self, ce: ComputingElement, orders: Sequence[PilotOrder]) -> Sequence[Submission]:
        """Start the pilots and return what came of each."""

        def failed(sentence: str) -> Sequence[Submission]:
            return [Submission(stamp=order.stamp, error=sentence) for order in orders]

        return self._ask(ce, lambda backend: backend.submit(orders), otherwise=failed)

    def status(self, ce: ComputingElement, batch_ids: Collection[str]) -> Mapping[str, BatchState]:
        """Return where the pilots are; those that are missing are unknown, which is not their end."""
        nothing: Mapping[str, BatchState] = {}
        return self._ask(ce, lambda backend: backend.status(batch_ids), otherwise=lambda _: nothing)

    def kill(self, ce: ComputingElement, batch_ids: Collection[str]) -> None:
        """End the pilots at the CE."""
        self._ask(ce, lambda backend: backend.kill(batch_ids), otherwise=lambda _: None)

    def close(self) -> None:
        """Let go of all CEs; pilots that cannot live without their director leave."""
        for backend in self._backends.values():
            backend.close()

    def _ask(
        self, ce: ComputingElement, question: Callable[[Backend], Answer], *, otherwise: Callable[[str], Answer]
    ) -> Answer:
        try:
            answer = question(self._backend_of(ce))
        except BackendError as error:
            sentence = str(error)
        except Exception as error:  # noqa: BLE001 - the border to foreign systems: one must not keep the others back
            sentence = repr(error)
        else:
            self._troubles.pop(ce.pk, None)
            return answer
        if self._troubles.get(ce.pk) != sentence:  # once, not in each cycle
            self._troubles[ce.pk] = sentence
            logger.warning("ce.failed: %s at %s: %s", ce.name, ce.site.name, sentence, extra={"ce_id": ce.pk})
        return otherwise(sentence)

    def _backend_of(self, ce: ComputingElement) -> Backend:
        if ce.pk not in self._backends:
            self._backends[ce.pk] = BACKENDS[ce.type](ce, self._directory, self._server_url)
        backend = self._backends[ce.pk]
        backend.configure(ce.options)
        return backend
