"""A scripted batch system, and the work of the directors, by the clock of the tests."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from random import Random

import pytest

from matching.queries.restrictions import closings_now
from pilots.backends.interface import BatchState, Handle, PilotOrder, Presence, SubmitResult
from pilots.models import Pilot
from pilots.services import ce_cycle
from pilots.services.director_cycle import begin_rounds, run_cycle
from resources.models import ComputingElement
from tests.factories import NOW


class ScriptedBackend:
    """A backend that accepts pilots as scripted, and records its calls."""

    def __init__(self) -> None:
        self.free = 1000
        self.orders: list[PilotOrder] = []
        self.killed: list[str] = []
        self.cleaned: list[str] = []
        self.asked = 0
        #: By stamp.
        self.states: dict[str, BatchState] = {}
        self.refuses: Exception | str | None = None
        self.fails: Exception | None = None

    def capacity(self) -> int:
        return self.free

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        self.orders += orders
        if isinstance(self.refuses, Exception):
            raise self.refuses
        if self.refuses is not None:
            return [SubmitResult(stamp=order.stamp, error=self.refuses) for order in orders]
        return [SubmitResult(stamp=order.stamp, batch_id=f"id-{order.stamp}") for order in orders]

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        running = BatchState(presence=Presence.RUNNING)
        return {handle.stamp: self.states.get(handle.stamp, running) for handle in handles}

    def kill(self, handles: Collection[Handle]) -> None:
        self.killed += [handle.stamp for handle in handles]

    def output(self, handle: Handle) -> str:
        return f"what {handle.stamp} wrote"

    def clean(self, handles: Collection[Handle]) -> None:
        self.cleaned += [handle.stamp for handle in handles]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ScriptedBackend:
    scripted = ScriptedBackend()
    monkeypatch.setattr(ce_cycle, "backend_of", lambda _ce: scripted)
    return scripted


@pytest.fixture
def fleet(backend: ScriptedBackend) -> "Fleet":
    return Fleet()


class Fleet:
    """The periodic tasks of the directors."""

    def serve(self, *, after: timedelta = timedelta()) -> None:
        """Run a round at each CE that is due."""
        for ce_id in sorted(begin_rounds(now=NOW + after)):
            ce_cycle.serve(ce_id, clock=lambda: NOW + after)

    def cycle(self, *, after: timedelta = timedelta(), chance: int = 1) -> int:
        """Run a cycle, with rounds before and after; return the number of pilots that CEs have accepted."""
        self.serve(after=after)
        accepted = Pilot.objects.exclude(batch_id="").count()
        for ce_id in sorted(run_cycle(closings=closings_now, chance=Random(chance), now=NOW + after)):
            ce_cycle.serve(ce_id, clock=lambda: NOW + after)
        return Pilot.objects.exclude(batch_id="").count() - accepted


def ce_ids() -> list[int]:
    return list(ComputingElement.objects.order_by("pk").values_list("pk", flat=True))
