"""The pause before the next pilot for a batch queue whose pilots did not start in time (PIL §2.3)."""

from datetime import datetime, timedelta
from itertools import count

import pytest
from pytest_django import Settings

from pilots.domain.ce_backoff import StalledPilot, stalled_until
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.queries import stall_pauses
from resources.models import Queue
from tests.database.pilots.conftest import Fleet
from tests.factories import NOW, make_group, make_queue, make_task_queue

FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
LATE = timedelta(hours=6, seconds=1)
_job_ids = count(3_000_001)


@pytest.fixture(autouse=True)
def _pauses(settings: Settings) -> None:
    settings.WMS_STALL_PAUSE_S = FIRST.total_seconds()
    settings.WMS_STALL_PAUSE_MAX_S = LONGEST.total_seconds()


# ---- the rule --------------------------------------------------------------------------------------------------------


def until(*stalls: tuple[float, float]) -> datetime | None:
    """Return the end of the pause after pilots of (hour of submission, hour of the stall)."""
    return stalled_until(
        [
            StalledPilot(submitted_at=NOW + timedelta(hours=submitted), stalled_at=NOW + timedelta(hours=stalled))
            for submitted, stalled in stalls
        ],
        first=FIRST,
        longest=LONGEST,
    )


def test_without_stalled_pilots_there_is_no_pause() -> None:
    assert until() is None


def test_pilots_that_waited_side_by_side_are_one_failure() -> None:
    assert until((0, 6), (1, 7), (5.9, 11.9)) == NOW + timedelta(hours=11.9) + FIRST


def test_the_pause_doubles_with_each_pilot_that_was_sent_after_a_stall_up_to_the_longest() -> None:
    stalls = [(10.0 * number, 10.0 * number + 6) for number in range(10)]
    pauses = []
    for number in range(1, 11):
        end = until(*reversed(stalls[:number]))
        assert end is not None
        pauses.append(end - NOW - timedelta(hours=stalls[number - 1][1]))
    assert pauses[:3] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert pauses[-1] == LONGEST


# ---- what directors do -----------------------------------------------------------------------------------------------


@pytest.fixture
def queue() -> Queue:
    """Return a batch queue for which a job waits."""
    queue = make_queue(max_waiting_pilots=50)
    make_task_queue(group=make_group(), job_ids=[next(_job_ids)])
    return queue


@pytest.mark.django_db
def test_the_next_pilot_waits_longer_each_time(fleet: Fleet, queue: Queue) -> None:
    assert fleet.cycle() == 1
    passed = timedelta()
    for pause in (FIRST, 2 * FIRST, 4 * FIRST):
        stalled = passed + LATE
        fleet.serve(after=stalled)
        passed = stalled + pause
        for earlier in (pause, pause / 2, timedelta(seconds=1)):
            assert fleet.cycle(after=passed - earlier) == 0
        assert fleet.cycle(after=passed) == 1


@pytest.mark.django_db
def test_a_pilot_that_starts_ends_the_pause(fleet: Fleet, queue: Queue) -> None:
    fleet.cycle()
    fleet.serve(after=LATE)
    assert fleet.cycle(after=LATE) == 0
    # The stalled one itself, before it could be killed; it has a job now.
    at = NOW + LATE + timedelta(seconds=1)
    Pilot.objects.update(status=PilotStatus.RUNNING, started_at=at, last_seen_at=at, matched_at=at)
    assert fleet.cycle(after=LATE + timedelta(minutes=1)) == 1


@pytest.mark.django_db
def test_other_batch_queues_of_the_computing_element_get_pilots(fleet: Fleet, queue: Queue) -> None:
    other = make_queue(ce=queue.ce, max_waiting_pilots=10)
    fleet.cycle()
    fleet.serve(after=LATE)
    assert fleet.cycle(after=LATE) == 1
    assert list(Pilot.objects.order_by("pk").values_list("queue_id", flat=True)) == [queue.pk, other.pk]


@pytest.mark.django_db
@pytest.mark.parametrize("wrong", [timedelta(days=300), -timedelta(days=30)])
def test_a_stall_time_in_the_future_causes_no_pause(fleet: Fleet, queue: Queue, wrong: timedelta) -> None:
    fleet.cycle()
    fleet.serve(after=LATE)
    Pilot.objects.update(stalled_at=NOW + LATE + wrong)
    assert fleet.cycle(after=LATE) == 1


@pytest.mark.django_db
def test_the_health_of_the_computing_element_shows_the_pause(fleet: Fleet, queue: Queue) -> None:
    fleet.cycle()
    fleet.serve(after=LATE)
    end = NOW + LATE + FIRST
    assert stall_pauses(now=NOW + LATE) == {queue.pk: end}
    assert CEHealth.objects.get().stalls == (
        f"Pilots in the queue {queue.name} did not start in time; the next is sent at {end:%Y-%m-%d %H:%M} UTC."
    )
    assert CEHealth.objects.get().trouble == ""
    fleet.serve(after=LATE + FIRST)
    assert CEHealth.objects.get().stalls == ""
