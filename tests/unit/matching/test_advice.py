"""Advice on waiting jobs: proposed numbers, the order of changes, and their sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching.domain.facts import Change, fact
from matching.domain.findings import Advice, Effect
from matching.domain.sentences import advice, shorter
from matching.queries.explain.advice import best, lowered

numbers = st.integers(min_value=0, max_value=50)


def effect(gained: int, **values: object) -> Effect:
    change = fact(Change.OTHER_SETUP, setup=gained, own="x")
    return Effect(change=change, gained=gained, **values)  # type: ignore[arg-type]  # of the test


@given(required=numbers, offered=st.lists(numbers))
def test_the_first_number_is_the_smallest_change_and_the_last_admits_all(required: int, offered: list[int]) -> None:
    usable = [value for value in offered if value < required]
    values = lowered(required, offered)
    assert (not values) == (not usable)
    if usable:
        assert values[0] == max(usable)
        assert values[-1] == min(usable)
        assert len(values) <= 2
        assert list(values) == sorted(set(values), reverse=True)


def test_changes_that_admit_most_queues_come_first_and_useless_ones_are_left_out() -> None:
    loses = effect(2, lost=1)
    assert best([effect(0), effect(1), loses, effect(2), effect(5)], most=3) == [effect(5), effect(2), loses]


def test_advice_counts_further_sites_and_queues_that_are_closed_or_lost() -> None:
    many = effect(9, closed=2, sites=["a", "b", "c", "d", "e"])
    loses = effect(3, closed=1, lost=2, sites=["CERN"])
    assert advice(Advice(effects=[many, loses], fits_some=True)) == [
        (
            "With the setup 9 instead of x it would fit 9 queues more: a, b, c and 2 more sites; 2 of them accept no "
            "jobs at present."
        ),
        (
            "With the setup 3 instead of x it would fit 3 queues more: CERN; 1 of them accepts no jobs at present; 2 "
            "of those that it fits now would no longer fit."
        ),
    ]


@pytest.mark.parametrize(
    ("value_s", "own_s", "expected"),
    [
        (86_400, 129_600, ("24 h", "36 h")),
        (50_000, 50_400, ("13 h 53 min", "14 h")),
        (299_000, 300_000, ("299,000 s", "300,000 s")),
    ],
)
def test_two_durations_never_read_the_same(value_s: int, own_s: int, expected: tuple[str, str]) -> None:
    assert shorter(value_s, own_s=own_s) == expected
