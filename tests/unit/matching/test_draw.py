"""The draw among the user priorities of a queue (TQM, PIL)."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching.domain.draw import draw_user_priority
from taskqueues.domain.shares import WEIGHT_OF_PRIORITY

levels = st.dictionaries(st.integers(0, 10), st.integers(1, 10**6), min_size=1)


def draw(jobs: dict[int, int], *, chance: float) -> int:
    return draw_user_priority(np.array([jobs.get(level, 0) for level in range(11)]), chance=chance)


@given(levels, st.floats(0, 1, exclude_max=True))
def test_only_a_level_with_jobs_is_drawn(jobs: dict[int, int], chance: float) -> None:
    assert draw(jobs, chance=chance) in jobs


@given(levels)
def test_the_ends_of_chance_draw_the_ends_of_the_levels(jobs: dict[int, int]) -> None:
    assert draw(jobs, chance=0.0) == min(jobs)
    # The lowest level is less than 1e-17 of the whole only when it weighs that little.
    assert draw(jobs, chance=1 - 2**-53) == max(jobs)


@pytest.mark.parametrize("jobs", [{1: 1, 2: 1, 9: 1}, {3: 100, 5: 7, 8: 1}, {1: 3, 2: 0 + 1, 4: 50}])
def test_a_level_is_drawn_in_proportion_to_jobs_times_weight(jobs: dict[int, int]) -> None:
    total = sum(Fraction(int(WEIGHT_OF_PRIORITY[p]) * n) for p, n in jobs.items())
    steps = 10_000
    drawn = [draw(jobs, chance=step / steps) for step in range(steps)]
    for priority, number in jobs.items():
        expected = float(Fraction(int(WEIGHT_OF_PRIORITY[priority]) * number) / total)
        assert drawn.count(priority) / steps == pytest.approx(expected, abs=2 / steps)


def test_priority_zero_is_drawn_when_nothing_else_waits() -> None:
    assert draw({0: 5}, chance=Random(1).random()) == 0


def test_priority_ten_outweighs_nine() -> None:
    # 9 / (1e5 + 9) of the chance, and levels are stacked from the lowest.
    assert draw({9: 1, 10: 1}, chance=8.9e-5) == 9
    assert draw({9: 1, 10: 1}, chance=9.1e-5) == 10
