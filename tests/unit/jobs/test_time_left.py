"""The predicted time of a submission, compared with how long simulated ones take."""

import heapq
from collections.abc import Callable, Iterator
from math import log
from random import Random
from statistics import fmean, stdev

import pytest

from wms.jobs.domain.time_left import LEAST_ENDED, PayloadProgress, TimeRange, time_left

_HOUR_S = 3600.0
#: Seconds a payload runs.
Runs = Callable[[Random], float]


def states(*, jobs: int, slots: int, runs: Runs, chance: Random) -> Iterator[tuple[float, PayloadProgress]]:
    """Yield the time and the progress of a submission after every start or end, and at last its end."""
    now_s, waiting, running, ended = 0.0, jobs, list[tuple[float, float]](), list[tuple[float, float]]()
    while waiting or running:
        while waiting and len(running) < slots:
            heapq.heappush(running, (now_s + runs(chance), now_s))
            waiting -= 1
        # Somewhere until the next end.
        seen_at_s = chance.uniform(now_s, running[0][0])
        elapsed_s = [seen_at_s - started_s for _, started_s in running]
        times_s = [end_s - started_s for end_s, started_s in ended if end_s > seen_at_s - _HOUR_S]
        yield (
            seen_at_s,
            PayloadProgress(
                waiting=waiting,
                running=len(running),
                elapsed_s=sum(elapsed_s),
                least_elapsed_s=min(elapsed_s),
                ended=len(times_s),
                mean_s=fmean(times_s) if times_s else 0.0,
                deviation_s=stdev(times_s) if len(times_s) > 1 else 0.0,
            ),
        )
        now_s = running[0][0]
        ended.append(heapq.heappop(running))
    yield now_s, PayloadProgress(0, 0, 0.0, 0.0, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("jobs", "slots", "runs"),
    [
        pytest.param(300, 9, lambda _: 600.0, id="equal"),
        pytest.param(1000, 50, lambda chance: chance.uniform(60, 1200), id="uniform"),
        pytest.param(300, 9, lambda chance: chance.expovariate(1 / 600), id="exponential"),
        pytest.param(300, 9, lambda chance: chance.lognormvariate(log(600), 0.8), id="lognormal"),
        pytest.param(2000, 9, lambda chance: chance.uniform(20, 60), id="short"),
        pytest.param(200, 20, lambda chance: chance.uniform(7200, 14400), id="hours"),
        pytest.param(20, 5, lambda chance: chance.uniform(300, 900), id="few"),
    ],
)
def test_eight_of_ten_predictions_hold_and_no_range_is_wider_than_three(jobs: int, slots: int, runs: Runs) -> None:
    predicted, held, unsaid = 0, 0, 0
    for seed in range(4):
        *seen, (end_s, _) = states(jobs=jobs, slots=slots, runs=runs, chance=Random(seed))
        for now_s, progress in seen:
            found = time_left(progress)
            if found is None:
                unsaid += 1
                continue
            predicted += 1
            held += found.least_s <= end_s - now_s <= found.most_s
            assert found.most_s <= 3 * found.least_s
    assert held >= 0.8 * predicted, held / predicted
    # Nothing is said before the first have ended.
    assert unsaid <= 0.1 * predicted or jobs < 10 * slots + LEAST_ENDED


def test_nothing_is_said_while_few_have_ended_or_none_runs() -> None:
    known = PayloadProgress(
        waiting=5, running=2, elapsed_s=10.0, least_elapsed_s=5.0, ended=3, mean_s=10.0, deviation_s=1.0
    )
    assert time_left(known) is not None
    assert time_left(known._replace(ended=2)) is None
    assert time_left(known._replace(running=0)) is None


def test_the_last_job_of_equal_ones_is_expected_when_its_time_is_over() -> None:
    last = PayloadProgress(
        waiting=0, running=1, elapsed_s=400.0, least_elapsed_s=400.0, ended=500, mean_s=600.0, deviation_s=0.0
    )
    found = time_left(last)
    assert isinstance(found, TimeRange)
    assert found.least_s < 200 < found.most_s
