"""The number of pilots that are needed (PIL, docs/architecture.md, Pilots and directors)."""

from itertools import repeat
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.domain.pilot_demand import (
    DirectorRate,
    QueueDemand,
    expected_pilots,
    most_pilots,
    poisson_at_most,
    wanted_pilots,
)

EAGER = DirectorRate(pilots_per_cycle=40, max_cpu_s=300_000)


def demand(task_queue_id: int = 1, *, jobs: int = 10, priority: float = 1.0, cpu_time_s: int = 300_000) -> QueueDemand:
    return QueueDemand(task_queue_id=task_queue_id, jobs=jobs, priority=priority, cpu_time_s=cpu_time_s)


demands = st.lists(
    st.builds(
        demand,
        st.integers(1, 6),
        jobs=st.integers(1, 50),
        priority=st.floats(1e-5, 1e6),
        cpu_time_s=st.sampled_from([500, 5000, 50_000, 300_000]),
    ),
    max_size=6,
    unique_by=lambda one: one.task_queue_id,
)


# ---- how many --------------------------------------------------------------------------------------------------------


def test_the_mean_is_the_formula_of_the_design() -> None:
    queues = [demand(1, jobs=10, priority=3.0, cpu_time_s=300_000), demand(2, jobs=30, priority=1.0, cpu_time_s=50_000)]
    assert expected_pilots(queues, rate=EAGER) == {
        1: pytest.approx((40 / 4 * 3 + 40 / 40 * 10) * 300_000 / 300_000),
        2: pytest.approx((40 / 4 * 1 + 40 / 40 * 30) * 300_000 / 50_000),
    }


def test_a_job_shorter_than_two_hours_is_boosted_as_one_of_two_hours() -> None:
    short, two_hours = (expected_pilots([demand(cpu_time_s=s)], rate=EAGER)[1] for s in (500, 7200))
    assert short == two_hours == pytest.approx(80 * 300_000 / 7200)


@pytest.mark.parametrize(
    ("jobs", "waiting", "extra_fraction", "extra", "most"),
    [
        (0, 0, 0.0, 0, 0),
        (10, 0, 0.0, 0, 10),
        (10, 4, 0.0, 0, 6),
        (10, 10, 0.0, 0, 0),
        (10, 20, 0.0, 0, 0),
        (10, 20, 0.0, 15, 5),
        (10, 0, 0.25, 0, 12),
        (10, 12, 0.25, 1, 1),
        (0, 0, 0.5, 2, 2),
    ],
)
def test_the_number_of_further_pilots_is_bounded(
    jobs: int, waiting: int, extra_fraction: float, extra: int, most: int
) -> None:
    rate = DirectorRate(pilots_per_cycle=40, max_cpu_s=300_000, extra_fraction=extra_fraction, extra=extra)
    assert most_pilots(jobs, waiting=waiting, rate=rate) == most


def test_an_empty_task_queue_needs_no_pilots() -> None:
    assert wanted_pilots([], waiting={}, rate=EAGER, chance=Random(1).random) == {}


def test_ten_jobs_with_twenty_waiting_pilots_need_none() -> None:
    assert wanted_pilots([demand(jobs=10)], waiting={1: 20}, rate=EAGER, chance=Random(1).random) == {1: 0}


def test_ten_jobs_without_pilots_need_ten() -> None:
    # Poisson of 80: below 10 once in 10^19 times.
    assert wanted_pilots([demand(jobs=10)], waiting={}, rate=EAGER, chance=Random(1).random) == {1: 10}


def test_priorities_of_zero_divide_nothing() -> None:
    assert expected_pilots([demand(priority=0.0, jobs=0)], rate=EAGER) == {1: 0.0}


@given(
    demands, st.dictionaries(st.integers(1, 6), st.integers(0, 60)), st.floats(0, 2), st.integers(0, 5), st.randoms()
)
def test_wanted_pilots_are_never_negative_nor_more_than_may_be(
    queues: list[QueueDemand], waiting: dict[int, int], extra_fraction: float, extra: int, chance: Random
) -> None:
    rate = DirectorRate(pilots_per_cycle=40, max_cpu_s=300_000, extra_fraction=extra_fraction, extra=extra)
    wanted = wanted_pilots(queues, waiting=waiting, rate=rate, chance=chance.random)
    assert set(wanted) == {one.task_queue_id for one in queues}
    for one in queues:
        most = int((1 + extra_fraction) * one.jobs) + extra - waiting.get(one.task_queue_id, 0)
        assert 0 <= wanted[one.task_queue_id] <= max(0, most)


@pytest.mark.parametrize("mean", [0.3, 3.0, 40.0])
def test_the_number_is_drawn_from_the_poisson_distribution(mean: float) -> None:
    chance = Random(20260601)
    drawn = [poisson_at_most(mean, most=10**6, chance=chance.random) for _ in range(20_000)]
    average = sum(drawn) / len(drawn)
    variance = sum((one - average) ** 2 for one in drawn) / len(drawn)
    # Both are the mean; five standard deviations of the average, and about that of the variance.
    assert average == pytest.approx(mean, abs=5 * (mean / len(drawn)) ** 0.5)
    assert variance == pytest.approx(mean, rel=0.1)


def test_the_poisson_draw_for_a_million_jobs_is_fast() -> None:
    steps = repeat(0.5)
    assert poisson_at_most(80.0, most=10**6, chance=lambda: next(steps)) < 200
    assert poisson_at_most(0.0, most=10**6, chance=lambda: 0.5) == 0
    assert poisson_at_most(10.0**9, most=3, chance=lambda: 1 - 2**-53) == 3
