"""Seconds until the next request, in answers to pilots that got no job."""

from random import Random

from matching.services.retry_after import LONGEST_S, SPREAD, RetryAfter


def waits(*, pilots_per_s: float, seconds: float, at_least_s: float = 10) -> list[int]:
    """Return the answered seconds of all requests, at a constant rate of requests."""
    patience, chance = RetryAfter(), Random(1)
    return [
        patience.next_s(at_least_s=at_least_s, now=number / pilots_per_s, chance=chance)
        for number in range(int(pilots_per_s * seconds))
    ]


def test_few_pilots_are_told_what_the_site_has_set() -> None:
    assert set(waits(pilots_per_s=10, seconds=60)) == {10}


def test_many_pilots_are_told_to_wait_longer_and_not_all_the_same() -> None:
    told = waits(pilots_per_s=50, seconds=60)[-100:]
    assert min(told) > 40
    assert max(told) <= LONGEST_S * (1 + SPREAD)
    assert len(set(told)) > 5


def test_none_waits_longer_than_the_longest_unless_the_site_says_so() -> None:
    assert max(waits(pilots_per_s=1000, seconds=20)) <= LONGEST_S * (1 + SPREAD)
    assert min(waits(pilots_per_s=1000, seconds=20, at_least_s=600)) >= 600


def test_ten_thousand_who_obey_ask_a_few_hundred_times_a_second() -> None:
    patience, chance = RetryAfter(), Random(1)
    # As at the start of a farm: all come within ten seconds.
    due = sorted(10 * chance.random() for _ in range(10_000))
    asked = 0
    for second in range(1, 181):
        now = [moment for moment in due if moment < second]
        due = [moment for moment in due if moment >= second]
        due += [moment + patience.next_s(at_least_s=10, now=moment, chance=chance) for moment in sorted(now)]
        asked += len(now) if second > 120 else 0
    assert asked / 60 < 200
