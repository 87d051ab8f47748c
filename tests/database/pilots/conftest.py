"""A computing element of the tests' own, in place of processes."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from pilots.backends.interface import BatchState, PilotOrder, Presence, Submission
from pilots.services import fleet as fleet_module
from pilots.services.fleet import Fleet


class ScriptedBackend:
    """Accepts what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.free = 1000
        self.orders: list[PilotOrder] = []
        self.killed: list[str] = []
        self.states: dict[str, BatchState] = {}
        self.refuses: Exception | str | None = None

    def configure(self, options: Mapping[str, object]) -> None:
        pass

    def capacity(self) -> int:
        return self.free

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submission]:
        self.orders += orders
        if isinstance(self.refuses, Exception):
            raise self.refuses
        if self.refuses is not None:
            return [Submission(stamp=order.stamp, error=self.refuses) for order in orders]
        return [Submission(stamp=order.stamp, batch_id=f"id-{order.stamp}") for order in orders]

    def status(self, batch_ids: Collection[str]) -> Mapping[str, BatchState]:
        running = BatchState(presence=Presence.RUNNING)
        return {batch_id: self.states.get(batch_id, running) for batch_id in batch_ids}

    def kill(self, batch_ids: Collection[str]) -> None:
        self.killed += batch_ids

    def close(self) -> None:
        pass


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ScriptedBackend:
    scripted = ScriptedBackend()
    monkeypatch.setattr(fleet_module, "BACKENDS", {"local": lambda *_: scripted})
    return scripted


@pytest.fixture
def fleet(backend: ScriptedBackend) -> Fleet:
    return Fleet(directory=Path("/nowhere"), server_url="http://localhost:1/")
