"""Why a cycle sent no pilot to a batch queue."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pilots.domain.allocation import Cap, OpenQueues
from pilots.domain.decisions import CycleFacts, NoPilots, decisions_of
from pilots.domain.empty_pilot_throttle import NONE, EmptyPilotThrottle

YES, NO = np.array([True]), np.array([False])
#: One batch queue, which serves the first of two task queues.
PLACES = OpenQueues(
    ce=np.array([0]),
    room=np.array([5]),
    slots=np.array([5]),
    serves=np.array([[True, False]]),
    accepts_generic=YES,
    accepts_private=YES,
    takes_generic=np.array([True, True]),
    takes_private=np.array([True, True]),
    throttle=[NONE],
)
FACTS = CycleFacts(
    places=PLACES,
    lacking=np.array([7, 9]),
    waiting_since=np.array([100.0, 100.0]),
    caps=[],
    is_directed=YES,
    ce_answers=YES,
    is_stalled=NO,
)
EMPTY = [EmptyPilotThrottle(sent_fraction=0.0, seen_at=200.0)]


def cap(room: int, *, task_queues: tuple[bool, bool] = (True, True)) -> Cap:
    return Cap(places=YES, task_queues=np.array(task_queues), room=room)


@pytest.mark.parametrize(
    ("facts", "places", "reason"),
    [
        ({}, {"serves": np.array([[False, False]])}, NoPilots.NO_JOBS),
        ({"lacking": np.array([0, 9])}, {}, NoPilots.COVERED),
        ({"is_directed": NO}, {}, NoPilots.NO_DIRECTOR),
        ({"ce_answers": NO}, {"slots": np.array([0])}, NoPilots.CE_AWAY),
        ({"is_stalled": YES}, {"room": np.array([0])}, NoPilots.STALLED),
        ({}, {"room": np.array([-1])}, NoPilots.FULL),
        ({}, {"slots": np.array([0])}, NoPilots.CE_FULL),
        ({"caps": [cap(0)]}, {}, NoPilots.THROTTLED),
        ({"caps": [cap(1), cap(0, task_queues=(False, True))]}, {}, NoPilots.ELSEWHERE),
        ({}, {"throttle": EMPTY}, NoPilots.EMPTY),
        ({"waiting_since": np.array([300.0, 100.0])}, {"throttle": EMPTY}, NoPilots.ELSEWHERE),
    ],
)
def test_the_first_reason_that_holds_is_given(facts: dict[str, Any], places: dict[str, Any], reason: NoPilots) -> None:
    (decision,) = decisions_of(replace(FACTS, places=replace(PLACES, **places), **facts), sent=[0])
    assert decision.why_none is reason


def test_jobs_that_fit_and_lack_a_pilot_are_wanted_and_a_queue_that_got_pilots_needs_no_reason() -> None:
    (decision,) = decisions_of(FACTS, sent=[3])
    assert (decision.place, decision.wanted, decision.sent, decision.why_none) == (0, 7, 3, None)
