"""How many pilots are wanted, and where they go (PIL, DESIGN §3.7)."""

from collections import Counter
from itertools import repeat
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.domain.demand import (
    Bound,
    Crowd,
    Demand,
    Eagerness,
    Place,
    covered,
    expected_pilots,
    most_pilots,
    poisson_at_most,
    share_out,
    wanted_pilots,
)
from resources.domain.words import PilotType

EAGER = Eagerness(pilots_per_cycle=40, max_cpu_s=300_000)


def demand(task_queue_id: int = 1, *, jobs: int = 10, priority: float = 1.0, cpu_time_s: int = 300_000) -> Demand:
    return Demand(task_queue_id=task_queue_id, jobs=jobs, priority=priority, cpu_time_s=cpu_time_s)


def place(queue_id: int, *generic: int, room: int = 10, ce_id: int = 1, private: tuple[int, ...] = ()) -> Place:
    return Place(queue_id=queue_id, ce_id=ce_id, room=room, generic=frozenset(generic), private=frozenset(private))


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
ids = st.frozensets(st.integers(1, 6), max_size=6)
places = st.lists(
    st.builds(
        lambda queue_id, ce_id, room, generic, private: place(
            queue_id, *generic, room=room, ce_id=ce_id, private=tuple(private)
        ),
        st.integers(1, 5),
        st.integers(1, 3),
        st.integers(0, 20),
        ids,
        ids,
    ),
    max_size=5,
    unique_by=lambda one: one.queue_id,
)
crowds = st.lists(st.builds(Crowd, pilots=st.integers(0, 30), serves=ids), max_size=5)


# ---- how many --------------------------------------------------------------------------------------------------------


def test_the_mean_is_the_formula_of_the_design() -> None:
    queues = [demand(1, jobs=10, priority=3.0, cpu_time_s=300_000), demand(2, jobs=30, priority=1.0, cpu_time_s=50_000)]
    assert expected_pilots(queues, eagerness=EAGER) == {
        1: pytest.approx((40 / 4 * 3 + 40 / 40 * 10) * 300_000 / 300_000),
        2: pytest.approx((40 / 4 * 1 + 40 / 40 * 30) * 300_000 / 50_000),
    }


def test_a_job_shorter_than_two_hours_is_boosted_as_one_of_two_hours() -> None:
    short, two_hours = (expected_pilots([demand(cpu_time_s=s)], eagerness=EAGER)[1] for s in (500, 7200))
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
def test_what_a_task_queue_may_have_more(jobs: int, waiting: int, extra_fraction: float, extra: int, most: int) -> None:
    eagerness = Eagerness(pilots_per_cycle=40, max_cpu_s=300_000, extra_fraction=extra_fraction, extra=extra)
    assert most_pilots(jobs, waiting=waiting, eagerness=eagerness) == most


def test_nothing_that_waits_wants_no_pilots() -> None:
    assert wanted_pilots([], waiting={}, eagerness=EAGER, chance=Random(1).random) == {}


def test_ten_jobs_with_twenty_pilots_waiting_want_none() -> None:
    assert wanted_pilots([demand(jobs=10)], waiting={1: 20}, eagerness=EAGER, chance=Random(1).random) == {1: 0}


def test_ten_jobs_alone_want_ten_pilots() -> None:
    # Poisson of 80: below 10 once in 10^19 times.
    assert wanted_pilots([demand(jobs=10)], waiting={}, eagerness=EAGER, chance=Random(1).random) == {1: 10}


def test_priorities_of_zero_divide_nothing() -> None:
    assert expected_pilots([demand(priority=0.0, jobs=0)], eagerness=EAGER) == {1: 0.0}


@given(
    demands, st.dictionaries(st.integers(1, 6), st.integers(0, 60)), st.floats(0, 2), st.integers(0, 5), st.randoms()
)
def test_wanted_pilots_are_never_negative_nor_more_than_may_be(
    queues: list[Demand], waiting: dict[int, int], extra_fraction: float, extra: int, chance: Random
) -> None:
    eagerness = Eagerness(pilots_per_cycle=40, max_cpu_s=300_000, extra_fraction=extra_fraction, extra=extra)
    wanted = wanted_pilots(queues, waiting=waiting, eagerness=eagerness, chance=chance.random)
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


def test_a_million_jobs_take_no_million_steps() -> None:
    steps = repeat(0.5)
    assert poisson_at_most(80.0, most=10**6, chance=lambda: next(steps)) < 200
    assert poisson_at_most(0.0, most=10**6, chance=lambda: 0.5) == 0
    assert poisson_at_most(10.0**9, most=3, chance=lambda: 1 - 2**-53) == 3


# ---- which are there already -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "crowd", "found"),
    [
        ({1: 10}, [], {}),
        ({1: 10}, [Crowd(pilots=20, serves=frozenset({1}))], {1: 10}),
        ({1: 10}, [Crowd(pilots=20, serves=frozenset())], {}),
        ({1: 2, 2: 2}, [Crowd(pilots=3, serves=frozenset({1, 2}))], {1: 2, 2: 1}),
        # The pilot that only 2 can use is counted for 2, and so the other one for 1.
        (
            {1: 1, 2: 1},
            [Crowd(pilots=1, serves=frozenset({1, 2})), Crowd(pilots=1, serves=frozenset({2}))],
            {1: 1, 2: 1},
        ),
    ],
)
def test_pilots_without_a_job_stand_for_what_they_can_serve(
    wanted: dict[int, int], crowd: list[Crowd], found: dict[int, int]
) -> None:
    assert {queue: pilots for queue, pilots in covered(wanted, crowd).items() if pilots} == found


@given(st.dictionaries(st.integers(1, 6), st.integers(0, 30)), crowds)
def test_no_pilot_is_counted_twice(wanted: dict[int, int], crowd: list[Crowd]) -> None:
    found = covered(wanted, crowd)
    assert all(0 <= found[queue] <= wanted.get(queue, 0) for queue in found)
    assert sum(found.values()) <= sum(one.pilots for one in crowd)
    for queue, pilots in found.items():
        assert pilots <= sum(one.pilots for one in crowd if queue in one.serves)


# ---- where they go ---------------------------------------------------------------------------------------------------


def test_pilots_are_spread_over_the_queues() -> None:
    sent = share_out(
        {1: 9}, [place(n, 1) for n in (1, 2, 3)], slots={1: 99}, private_fraction=0, chance=Random(1).random
    )
    assert Counter(one.queue_id for one in sent) == {1: 3, 2: 3, 3: 3}


@pytest.mark.parametrize(
    ("there", "slots", "number"),
    [
        ([place(1, 1, room=4)], {1: 99}, 4),
        ([place(1, 1, room=4), place(2, 1, room=3)], {1: 99}, 7),
        ([place(1, 1, room=4), place(2, 1, room=3)], {1: 5}, 5),
        ([place(1, 1, room=4), place(2, 1, room=3, ce_id=2)], {1: 1, 2: 1}, 2),
        ([place(1, 1)], {}, 0),
        ([place(1, 2)], {1: 99}, 0),
        ([place(1, 1, room=0)], {1: 99}, 0),
        ([], {1: 99}, 0),
    ],
)
def test_no_more_are_sent_than_there_is_room(there: list[Place], slots: dict[int, int], number: int) -> None:
    sent = share_out({1: 9}, there, slots=slots, private_fraction=0, chance=Random(1).random)
    assert len(sent) == number


def test_scarce_room_is_shared_in_proportion_to_what_is_wanted() -> None:
    chance, got = Random(7), Counter[int]()
    for _ in range(2000):
        sent = share_out(
            {1: 30, 2: 10}, [place(1, 1, 2, room=4)], slots={1: 9}, private_fraction=0, chance=chance.random
        )
        got.update(one.task_queue_id for one in sent)
    # Of 8000 pilots; the standard deviation is below 39.
    assert got[1] == pytest.approx(6000, abs=200)


def test_the_type_of_a_pilot_is_what_place_and_task_queue_accept() -> None:
    there = [place(1, 1, 2, private=(2, 3))]
    sent = share_out({1: 3, 2: 3, 3: 3}, there, slots={1: 99}, private_fraction=0, chance=Random(1).random)
    assert {(one.task_queue_id, one.pilot_type) for one in sent} == {
        (1, PilotType.GENERIC),
        (2, PilotType.GENERIC),
        (3, PilotType.PRIVATE),
    }
    sent = share_out({1: 3, 2: 3, 3: 3}, there, slots={1: 99}, private_fraction=1, chance=Random(1).random)
    assert {(one.task_queue_id, one.pilot_type) for one in sent} == {
        (1, PilotType.GENERIC),
        (2, PilotType.PRIVATE),
        (3, PilotType.PRIVATE),
    }


def test_the_private_fraction_is_a_fraction_of_the_pilots() -> None:
    there = [place(1, 1, private=(1,), room=10_000)]
    sent = share_out({1: 10_000}, there, slots={1: 10_000}, private_fraction=0.3, chance=Random(1).random)
    private = sum(one.pilot_type is PilotType.PRIVATE for one in sent)
    # The standard deviation is 46.
    assert private == pytest.approx(3000, abs=230)


@given(
    st.dictionaries(st.integers(1, 6), st.integers(0, 30)),
    places,
    st.dictionaries(st.integers(1, 3), st.integers(0, 30)),
    st.floats(0, 1),
    st.randoms(),
)
def test_nothing_is_sent_beyond_any_cap(
    wanted: dict[int, int], there: list[Place], slots: dict[int, int], private_fraction: float, chance: Random
) -> None:
    sent = share_out(wanted, there, slots=slots, private_fraction=private_fraction, chance=chance.random)
    by_queue = {one.queue_id: one for one in there}
    assert all(number <= wanted[queue] for queue, number in Counter(one.task_queue_id for one in sent).items())
    assert all(number <= by_queue[queue].room for queue, number in Counter(one.queue_id for one in sent).items())
    at_ce = Counter(by_queue[one.queue_id].ce_id for one in sent)
    assert all(number <= slots.get(ce_id, 0) for ce_id, number in at_ce.items())
    for one in sent:
        chosen = by_queue[one.queue_id]
        assert one.task_queue_id in (chosen.private if one.pilot_type is PilotType.PRIVATE else chosen.generic)


# ---- throttles and limits --------------------------------------------------------------------------------------------


def test_no_more_pilots_are_sent_than_a_throttle_leaves() -> None:
    there = [place(1, 1, 2), place(2, 1, 2), place(3, 1, 2, ce_id=2)]
    throttle = Bound(queue_ids=frozenset({1, 2}), task_queue_ids=None, room=3)
    sent = share_out(
        {1: 9, 2: 9},
        there,
        slots={1: 99, 2: 99},
        private_fraction=0,
        chance=Random(1).random,
        bounds=[throttle],
    )
    assert Counter(one.queue_id in {1, 2} for one in sent) == {True: 3, False: 10}


def test_no_more_pilots_are_sent_than_a_limit_leaves_and_others_take_the_room() -> None:
    limit = Bound(queue_ids=frozenset({1}), task_queue_ids=frozenset({1}), room=2)
    sent = share_out(
        {1: 9, 2: 9}, [place(1, 1, 2)], slots={1: 99}, private_fraction=0, chance=Random(1).random, bounds=[limit]
    )
    assert Counter(one.task_queue_id for one in sent) == {1: 2, 2: 8}


@pytest.mark.parametrize("room", [0, -5])
def test_nothing_is_sent_where_nothing_is_left(room: int) -> None:
    full = Bound(queue_ids=frozenset({1}), task_queue_ids=None, room=room)
    sent = share_out({1: 9}, [place(1, 1)], slots={1: 9}, private_fraction=0, chance=Random(1).random, bounds=[full])
    assert sent == []
