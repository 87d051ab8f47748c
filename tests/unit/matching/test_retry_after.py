"""Seconds until the next request, in answers to pilots that got no job."""

import heapq
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest

from matching.services.empty_answers import WRITTEN_EVERY_S
from matching.services.offers import PilotBinding
from matching.services.retry_after import LIKELY_FOR_S, LONGEST_S, SPREAD, LikelyWork, RetryAfter
from pilots.queries import ASKS_WITHIN

BINDING = PilotBinding(vo_id=1, group_id=None, owner_id=None, queue_id=7)


def waits(*, pilots_per_s: float, seconds: float, at_least_s: float = 10) -> list[int]:
    """Return the answered seconds of all requests, at a constant rate of requests."""
    schedule, chance = RetryAfter(), Random(1)
    return [
        schedule.next_s(at_least_s=at_least_s, now=number / pilots_per_s, chance=chance)
        for number in range(int(pilots_per_s * seconds))
    ]


def asked_per_s(
    *, pilots: int, processes: int, seconds: int, first_share: float | None = None
) -> tuple[Sequence[int], Counter[int]]:
    """Let pilots that obey start within ten seconds; return their requests in each second, and their waits.

    *first_share* is the part of the requests that the first process gets; None: as each other.
    """
    chance, every = Random(1), [RetryAfter() for _ in range(processes)]
    asked, told = [0] * seconds, Counter[int]()
    due = [10 * chance.random() for _ in range(pilots)]
    heapq.heapify(due)
    while due[0] < seconds:
        now = due[0]
        asked[int(now)] += 1
        is_first = first_share is not None and chance.random() < first_share
        schedule = every[0] if is_first else chance.choice(every[first_share is not None :])
        wait_s = schedule.next_s(at_least_s=2, now=now, chance=chance)
        told[wait_s] += 1
        heapq.heapreplace(due, now + wait_s + 0.01)
    return asked, told


def test_few_pilots_get_the_configured_retry_after() -> None:
    assert set(waits(pilots_per_s=10, seconds=60)) == {10}


def test_the_wait_is_the_number_of_pilots_by_the_rate() -> None:
    """At first forty answers a second; a process with a long wait gives more."""
    told = waits(pilots_per_s=1000, seconds=1, at_least_s=2)
    assert told[0] == 2
    assert max(told[:100]) <= 5
    assert 19 <= told[-1] <= 25


def test_no_pilot_waits_longer_than_the_maximum_or_the_setting() -> None:
    told = waits(pilots_per_s=1000, seconds=100)
    assert max(told) <= LONGEST_S
    assert max(told) - min(told[-1000:]) > LONGEST_S * SPREAD * 0.9
    assert min(waits(pilots_per_s=1000, seconds=20, at_least_s=600)) >= 600


def test_after_other_pilots_left_a_new_one_waits_the_minimum() -> None:
    schedule, chance = RetryAfter(), Random(1)
    for number in range(10_000):
        schedule.next_s(at_least_s=2, now=number / 1000, chance=chance)
    assert schedule.next_s(at_least_s=2, now=10 + LONGEST_S + 1, chance=chance) == 2


def test_ten_thousand_pilots_return_evenly() -> None:
    """Although all come within ten seconds: in no second many ask, and in none nobody."""
    asked, told = asked_per_s(pilots=10_000, processes=2, seconds=600)
    assert 100 <= sum(asked[120:]) / len(asked[120:]) <= 180
    assert min(asked[120:]) > 20
    assert max(asked[120:]) < 250
    assert max(told) < 120


def test_a_hundred_thousand_pilots_make_some_hundred_requests_a_second() -> None:
    asked, told = asked_per_s(pilots=100_000, processes=2, seconds=1200)
    assert sum(asked[600:]) / len(asked[600:]) < 450
    assert max(asked[600:]) < 600
    assert max(told) <= LONGEST_S


def test_an_uneven_load_of_processes_lengthens_waits_only_a_little() -> None:
    _, told = asked_per_s(pilots=10_000, processes=2, seconds=3600, first_share=0.6)
    assert max(told) < LONGEST_S / 2


def test_a_thousand_pilots_return_within_half_a_minute() -> None:
    _, told = asked_per_s(pilots=1000, processes=2, seconds=300)
    assert max(told) < 30


def test_work_is_likely_for_a_minute_after_a_match_of_an_equal_pilot() -> None:
    likely = LikelyWork()
    likely.note(BINDING, now=1000.0)
    assert likely.is_for(PilotBinding(*BINDING), now=1000.0 + LIKELY_FOR_S - 1)
    assert not likely.is_for(BINDING, now=1000.0 + LIKELY_FOR_S)
    assert not likely.is_for(BINDING._replace(queue_id=8), now=1000.0)


def test_the_memory_of_matches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matching.services.retry_after.MOST_BINDINGS", 10)
    likely = LikelyWork()
    for queue in range(11):
        likely.note(BINDING._replace(queue_id=queue), now=0.0)
    known = [queue for queue in range(11) if likely.is_for(BINDING._replace(queue_id=queue), now=1.0)]
    assert known == [5, 6, 7, 8, 9, 10]


def test_a_pilot_that_waits_as_told_does_not_count_as_stuck() -> None:
    """Agents prolong a wait by up to one half."""
    assert timedelta(seconds=1.5 * LONGEST_S + WRITTEN_EVERY_S) < ASKS_WITHIN
