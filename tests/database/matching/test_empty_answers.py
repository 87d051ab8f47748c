"""Empty answers: what they write, and when."""

from collections.abc import Callable, Mapping
from random import Random
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from matching.models import Match
from matching.services import retry_after as module
from matching.services.empty_answers import WRITTEN_EVERY_S
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.retry_after import LikelyWork, RetryAfter, seconds_to_wait
from matching.services.search import PilotRefusedError
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.exclusions import BlackHoleError, PilotDrainedError
from resources.models import Queue
from tests.clock import pass_time, stop_clock
from tests.factories import make_black_hole, make_group, make_job, make_pilot, make_queue
from tests.tables import rows_written
from wms.accounts.models import Group
from wms.kernel.counters import EMPTY_ANSWERS, MATCH_SECONDS, MATCHES

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def queue() -> Queue:
    return make_queue(processors=8, memory_mb=16_000)


@pytest.fixture
def idle(group: Group, queue: Queue) -> Pilot:
    """Return a pilot that has just got nothing, from a queue with a job that needs a tag."""
    stop_clock()
    make_job(group=group, tags=["gpu"])
    pilot = make_pilot(vo=group.vo, queue=queue)
    assert ask(pilot) == []
    return pilot


def ask(pilot: Pilot, *, request_id: UUID | None = None, cpu_time_s: int = 300_000) -> list[int]:
    offer, chance = OfferRequest(cpu_time_s=cpu_time_s), Random(1)
    leases = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
    return [lease.job_id for lease in leases]


def written_by(work: Callable[[], object]) -> int:
    before = rows_written()
    work()
    return rows_written() - before


def test_an_idle_pilot_is_written_once_a_minute(idle: Pilot) -> None:
    assert [written_by(lambda: ask(idle)) for _ in range(3)] == [0, 0, 0]
    pass_time(seconds=WRITTEN_EVERY_S - 1)
    assert written_by(lambda: ask(idle)) == 0
    pass_time(seconds=2)
    assert written_by(lambda: ask(idle)) == 1
    assert written_by(lambda: ask(idle)) == 0


def test_a_changed_reason_is_written_at_once(idle: Pilot) -> None:
    assert written_by(lambda: ask(idle, cpu_time_s=10)) == 1
    idle.refresh_from_db()
    assert (idle.nothing_left or {})["cpu_time"] == 0


def test_another_number_of_queues_is_the_same_reason(idle: Pilot, group: Group) -> None:
    make_job(group=group, tags=["fpga"])
    assert written_by(lambda: ask(idle)) == 0


def test_a_new_job_is_not_missed(idle: Pilot, group: Group) -> None:
    job = make_job(group=group)
    assert ask(idle) == [job.pk]


def test_a_repeated_request_gets_its_leases_though_nothing_else_fits(idle: Pilot, group: Group) -> None:
    job, request_id = make_job(group=group), uuid4()
    assert ask(idle, request_id=request_id) == [job.pk]
    assert ask(idle) == []
    assert ask(idle, request_id=request_id) == [job.pk]
    Match.objects.update(ended_at=timezone.now(), end_reason="finished")
    assert ask(idle, request_id=request_id) == [job.pk]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"revoked_at": timezone.now()}, PilotRefusedError),
        ({"ended_at": timezone.now(), "status": PilotStatus.DONE}, PilotRefusedError),
        ({"drained_at": timezone.now()}, PilotDrainedError),
    ],
)
def test_a_pilot_that_gets_no_more_jobs_gets_the_reason(
    idle: Pilot, columns: Mapping[str, Any], error: type[Exception]
) -> None:
    Pilot.objects.filter(pk=idle.pk).update(**columns)
    with pytest.raises(error):
        ask(idle)


def test_a_pilot_on_a_black_hole_gets_the_reason(idle: Pilot) -> None:
    Pilot.objects.filter(pk=idle.pk).update(black_hole=make_black_hole())
    with pytest.raises(BlackHoleError):
        ask(idle)


def test_a_stalled_pilot_runs_again_by_its_first_request(idle: Pilot) -> None:
    Pilot.objects.filter(pk=idle.pk).update(status=PilotStatus.STALLED, stalled_at=timezone.now())
    ask(idle)
    idle.refresh_from_db()
    assert idle.status == PilotStatus.RUNNING


def test_pilots_likely_to_get_a_job_have_a_schedule_of_their_own(
    monkeypatch: pytest.MonkeyPatch, group: Group, queue: Queue
) -> None:
    for name, made in (("retry_after", RetryAfter), ("retry_after_likely", RetryAfter), ("likely_work", LikelyWork)):
        monkeypatch.setattr(module, name, made())
    monkeypatch.setattr("matching.services.match.likely_work", module.likely_work)
    lucky, alike, other = (
        make_pilot(vo=group.vo, queue=queue),
        make_pilot(vo=group.vo, queue=queue),
        make_pilot(vo=group.vo, queue=make_queue()),
    )
    now, chance = monotonic(), Random(1)
    waits = [seconds_to_wait(alike.pk, now=now, chance=chance) for _ in range(2000)]
    make_job(group=group)
    assert ask(lucky)
    assert seconds_to_wait(alike.pk, now=now + 1, chance=chance) == waits[0] == 2
    assert seconds_to_wait(other.pk, now=now + 1, chance=chance) > 30


def test_an_empty_answer_is_counted_by_the_first_condition_that_left_nothing(idle: Pilot) -> None:
    def counted(reason: str) -> float:
        return float(EMPTY_ANSWERS.labels(reason)._value.get())

    before = counted("tags"), counted("cpu_time"), MATCHES._value.get()
    ask(idle)  # answered without a write
    ask(idle, cpu_time_s=10)
    assert (counted("tags"), counted("cpu_time"), MATCHES._value.get()) == (before[0] + 1, before[1] + 1, before[2])


def test_where_no_job_waits_that_is_the_reason(group: Group, queue: Queue) -> None:
    before = EMPTY_ANSWERS.labels("no_jobs")._value.get()
    assert ask(make_pilot(vo=group.vo, queue=queue)) == []
    assert EMPTY_ANSWERS.labels("no_jobs")._value.get() == before + 1


def test_leases_are_counted_with_their_time(group: Group, queue: Queue) -> None:
    make_job(group=group)
    leases, seconds = MATCHES._value.get(), MATCH_SECONDS._sum.get()
    assert len(ask(make_pilot(vo=group.vo, queue=queue))) == 1
    assert MATCHES._value.get() == leases + 1
    assert MATCH_SECONDS._sum.get() > seconds
