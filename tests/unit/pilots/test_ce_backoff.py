"""The pause of a computing element after repeated failures."""

from datetime import datetime, timedelta

import pytest

from pilots.domain.ce_backoff import FIRST_PAUSE, LONGEST_PAUSE, PilotOutcome, paused_until
from tests.factories import NOW


def cycle(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


def failed(number: int, *, after_s: float = 1) -> PilotOutcome:
    return PilotOutcome(submitted_at=cycle(number), failed_at=cycle(number) + timedelta(seconds=after_s))


def ran(number: int) -> PilotOutcome:
    return PilotOutcome(submitted_at=cycle(number), failed_at=None)


@pytest.mark.parametrize("latest", [[], [ran(1)], [ran(2), failed(1)], [failed(2), ran(2), failed(1)]])
def test_a_ce_with_a_running_pilot_of_its_last_cycle_has_no_pause(latest: list[PilotOutcome]) -> None:
    assert paused_until(latest) is None


def test_the_pilots_of_one_cycle_are_one_failure() -> None:
    assert paused_until([failed(1, after_s=3), failed(1), ran(0)]) == cycle(1) + timedelta(seconds=3) + FIRST_PAUSE


def test_the_pause_doubles_with_each_cycle_that_fails_up_to_the_longest() -> None:
    pauses = []
    for cycles in range(1, 14):
        until = paused_until([failed(number) for number in range(cycles, 0, -1)])
        assert until is not None
        pauses.append(until - cycle(cycles) - timedelta(seconds=1))
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
