"""The memory of full limits in a process: a limit counts as full for a time after a claim found it full."""

from matching.services.limits import FullLimits


def test_a_full_limit_is_remembered_for_a_second_and_one_with_a_delay_until_that_is_over() -> None:
    now = 1000.0
    full = FullLimits(clock=lambda: now)
    full.note(1)
    full.note(2, delay_s=0.25)
    full.note(3, delay_s=60.0)
    full.note(4, delay_s=0.0)
    found = {}
    for now in (1000.0, 1000.2, 1000.3, 1000.9, 1001.1):
        found[now] = full.recent()
    assert found == {
        1000.0: {1, 2, 3, 4},
        1000.2: {1, 2, 3, 4},
        1000.3: {1, 3, 4},
        1000.9: {1, 3, 4},
        1001.1: frozenset(),
    }
