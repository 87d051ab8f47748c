"""Allocation of pilots: those that exist, and the places of new ones (PIL, docs/architecture.md, Pilots and directors).

Task queues and batch queues have numbers here; the functions take arrays in which these are positions.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.domain.allocation import Cap, IdlePilots, OpenQueues, Placement, allocate, covered
from pilots.domain.empty_pilot_throttle import NONE, EmptyPilotThrottle, throttle_of
from pilots.domain.pilot_demand import Chance
from resources.domain.enums import PilotType
from taskqueues.domain.columns import Mask

#: Of task queues and of batch queues; the numbers begin with 0.
MANY = 7


@dataclass(frozen=True)
class Place:
    """One batch queue."""

    queue_id: int
    serves: frozenset[int]
    room: int = 10
    ce_id: int = 1
    #: None: both.
    accepts: PilotType | None = None
    throttle: EmptyPilotThrottle = NONE


def place(queue_id: int, *generic: int, **more: object) -> Place:
    return Place(queue_id, frozenset(generic), **more)  # type: ignore[arg-type]


def mask(numbers: Collection[int]) -> Mask:
    return np.isin(np.arange(MANY), list(numbers))


def cap(*, queues: Collection[int], task_queues: Collection[int] = range(MANY), room: int) -> Cap:
    return Cap(places=mask(queues), task_queues=mask(task_queues), room=room)


def idle(pilots: int, *serves: int) -> IdlePilots:
    return IdlePilots(pilots=pilots, serves=mask(serves))


def cover(wanted: Mapping[int, int], idle_pilots: Collection[IdlePilots]) -> dict[int, int]:
    found = covered(np.array([wanted.get(number, 0) for number in range(MANY)]), idle_pilots)
    return {number: int(pilots) for number, pilots in enumerate(found) if pilots}


def share(
    wanted: Mapping[int, int],
    there: Sequence[Place],
    *,
    slots: Mapping[int, int],
    chance: Chance,
    private_fraction: float = 0.0,
    caps: Sequence[Cap] = (),
    since: float | None = None,
    generic: Collection[int] | None = None,
    private: Collection[int] | None = None,
) -> list[Placement]:
    """Return the placements of pilots; the place of each is its queue_id."""
    by_id = {one.queue_id: one for one in there}
    rows = [by_id.get(number, Place(number, frozenset(), room=0)) for number in range(MANY)]
    places = OpenQueues(
        ce=np.array([one.ce_id for one in rows]),
        room=np.array([one.room for one in rows]),
        slots=np.array([slots.get(number, 0) for number in range(MANY)]),
        serves=np.array([mask(one.serves) for one in rows]),
        accepts_generic=np.array([one.accepts is not PilotType.PRIVATE for one in rows]),
        accepts_private=np.array([one.accepts is not PilotType.GENERIC for one in rows]),
        takes_generic=mask(range(MANY)) if generic is None else mask(generic),
        takes_private=mask(range(MANY)) if private is None else mask(private),
        throttle=[one.throttle for one in rows],
    )
    return allocate(
        np.array([wanted.get(number, 0) for number in range(MANY)]),
        places,
        private_fraction=private_fraction,
        chance=chance,
        caps=caps,
        waiting_since=None if since is None else np.full(MANY, since),
    )


ids = st.frozensets(st.integers(1, 6), max_size=6)
places = st.lists(
    st.builds(
        Place,
        st.integers(1, 5),
        ids,
        room=st.integers(0, 20),
        ce_id=st.integers(1, 3),
        accepts=st.sampled_from([None, *PilotType]),
    ),
    max_size=5,
    unique_by=lambda one: one.queue_id,
)
idle_pilots = st.lists(st.builds(lambda pilots, serves: idle(pilots, *serves), st.integers(0, 30), ids), max_size=5)


# ---- which are there already -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "there", "found"),
    [
        ({1: 10}, [], {}),
        ({1: 10}, [idle(20, 1)], {1: 10}),
        ({1: 10}, [idle(20)], {}),
        ({1: 2, 2: 2}, [idle(3, 1, 2)], {1: 2, 2: 1}),
        # The pilot that only 2 can use is counted for 2, and so the other one for 1.
        (
            {1: 1, 2: 1},
            [idle(1, 1, 2), idle(1, 2)],
            {1: 1, 2: 1},
        ),
    ],
)
def test_pilots_without_a_job_are_counted_for_queues_they_can_serve(
    wanted: dict[int, int], there: list[IdlePilots], found: dict[int, int]
) -> None:
    assert cover(wanted, there) == found


@given(st.dictionaries(st.integers(1, 6), st.integers(0, 30)), idle_pilots)
def test_no_pilot_is_counted_twice(wanted: dict[int, int], there: list[IdlePilots]) -> None:
    found = cover(wanted, there)
    assert all(0 <= found[queue] <= wanted.get(queue, 0) for queue in found)
    assert sum(found.values()) <= sum(one.pilots for one in there)
    for queue, pilots in found.items():
        assert pilots <= sum(one.pilots for one in there if one.serves[queue])


# ---- where they go ---------------------------------------------------------------------------------------------------


def test_pilots_are_spread_over_the_queues() -> None:
    sent = share({1: 9}, [place(n, 1) for n in (1, 2, 3)], slots={1: 99}, chance=Random(1).random)
    assert Counter(one.place for one in sent) == {1: 3, 2: 3, 3: 3}


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
def test_the_room_bounds_the_number_of_pilots(there: list[Place], slots: dict[int, int], number: int) -> None:
    sent = share({1: 9}, there, slots=slots, chance=Random(1).random)
    assert len(sent) == number


def test_scarce_room_is_shared_in_proportion_to_demand() -> None:
    chance, got = Random(7), Counter[int]()
    for _ in range(2000):
        sent = share({1: 30, 2: 10}, [place(1, 1, 2, room=4)], slots={1: 9}, chance=chance.random)
        got.update(one.task_queue for one in sent)
    # Of 8000 pilots; the standard deviation is below 39.
    assert got[1] == pytest.approx(6000, abs=200)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_the_type_of_a_pilot_is_what_place_and_task_queue_accept(fraction: float) -> None:
    there = [
        place(1, 1, 2, 3),
        place(2, 4, accepts=PilotType.GENERIC),
        place(3, 5, accepts=PilotType.PRIVATE),
    ]
    sent = share(
        dict.fromkeys(range(1, 6), 3),
        there,
        slots={1: 99},
        private_fraction=fraction,
        chance=Random(1).random,
        generic={1, 2, 4, 5},
        private={2, 3, 4, 5},
    )
    either = PilotType.PRIVATE if fraction else PilotType.GENERIC
    assert {one.task_queue: one.pilot_type for one in sent} == {
        1: PilotType.GENERIC,
        2: either,
        3: PilotType.PRIVATE,
        4: PilotType.GENERIC,
        5: PilotType.PRIVATE,
    }


def test_the_private_fraction_is_a_fraction_of_the_pilots() -> None:
    there = [place(1, 1, room=10_000)]
    sent = share({1: 10_000}, there, slots={1: 10_000}, private_fraction=0.3, chance=Random(1).random)
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
def test_caps_bound_the_number_of_pilots(
    wanted: dict[int, int], there: list[Place], slots: dict[int, int], private_fraction: float, chance: Random
) -> None:
    sent = share(wanted, there, slots=slots, private_fraction=private_fraction, chance=chance.random)
    by_queue = {one.queue_id: one for one in there}
    assert all(number <= wanted[queue] for queue, number in Counter(one.task_queue for one in sent).items())
    assert all(number <= by_queue[queue].room for queue, number in Counter(one.place for one in sent).items())
    at_ce = Counter(by_queue[one.place].ce_id for one in sent)
    assert all(number <= slots.get(ce_id, 0) for ce_id, number in at_ce.items())
    for one in sent:
        chosen = by_queue[one.place]
        assert one.task_queue in chosen.serves
        assert chosen.accepts in {None, one.pilot_type}


# ---- throttles and limits --------------------------------------------------------------------------------------------


def test_no_more_pilots_are_sent_than_a_throttle_leaves() -> None:
    there = [place(1, 1, 2), place(2, 1, 2), place(3, 1, 2, ce_id=2)]
    throttle = cap(queues={1, 2}, room=3)
    sent = share(
        {1: 9, 2: 9},
        there,
        slots={1: 99, 2: 99},
        chance=Random(1).random,
        caps=[throttle],
    )
    assert Counter(one.place in {1, 2} for one in sent) == {True: 3, False: 10}


def test_no_more_pilots_are_sent_than_a_limit_leaves_and_others_take_the_room() -> None:
    limit = cap(queues={1}, task_queues={1}, room=2)
    sent = share({1: 9, 2: 9}, [place(1, 1, 2)], slots={1: 99}, chance=Random(1).random, caps=[limit])
    assert Counter(one.task_queue for one in sent) == {1: 2, 2: 8}


@pytest.mark.parametrize("room", [0, -5])
def test_no_pilots_are_sent_to_a_full_place(room: int) -> None:
    full = cap(queues={1}, room=room)
    sent = share({1: 9}, [place(1, 1)], slots={1: 9}, chance=Random(1).random, caps=[full])
    assert sent == []


# ---- where pilots found nothing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("empty", "matched", "kept"),
    [(0, 0, 1.0), (9, 0, 1.0), (4, 6, 1.0), (5, 5, 0.5), (8, 2, 0.5), (9, 1, 0.0), (10, 0, 0.0), (50, 51, 1.0)],
)
def test_a_rising_share_of_empty_pilots_halves_and_then_stops_the_submission(
    empty: int, matched: int, kept: float
) -> None:
    found = [*(float(number) for number in range(empty)), *[None] * matched]
    assert throttle_of(found).sent_fraction == kept


@pytest.mark.parametrize(("kept", "least", "most"), [(1.0, 1000, 1000), (0.5, 420, 580), (0.0, 0, 0)])
def test_empty_matches_reduce_the_number_of_pilots(kept: float, least: int, most: int) -> None:
    pressed = place(1, 1, room=1000, throttle=EmptyPilotThrottle(sent_fraction=kept, seen_at=100.0))
    sent = share({1: 1000}, [pressed], slots={1: 1000}, chance=Random(1).random, since=99.0)
    assert least <= len(sent) <= most


def test_empty_matches_do_not_affect_later_task_queues() -> None:
    pressed = place(1, 1, throttle=EmptyPilotThrottle(sent_fraction=0.0, seen_at=100.0))
    assert len(share({1: 5}, [pressed], slots={1: 9}, chance=Random(1).random, since=101.0)) == 5


def test_pilots_withheld_at_one_place_are_sent_to_another() -> None:
    pressed = place(1, 1, room=2000, throttle=EmptyPilotThrottle(sent_fraction=0.5, seen_at=100.0))
    calm = place(2, 1, room=1000)
    sent = share({1: 1000}, [pressed, calm], slots={1: 5000, 2: 5000}, chance=Random(1).random, since=99.0)
    assert len(sent) == 1000
    assert 420 <= sum(one.place == 1 for one in sent) <= 580


def test_pilots_go_where_others_found_jobs() -> None:
    pressed = place(1, 1, room=20, throttle=EmptyPilotThrottle(sent_fraction=0.0, seen_at=100.0))
    sent = share({1: 5}, [pressed, place(2, 1)], slots={1: 99}, chance=Random(1).random, since=99.0)
    assert [one.place for one in sent] == [2] * 5
