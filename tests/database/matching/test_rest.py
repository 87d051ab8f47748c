"""While nothing waits, runs or has changed, beat sends the frequent tasks only once in REST_S (ADR 104)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from celery.beat import ScheduleEntry
from django.db import OperationalError, connection
from kombu import Producer

import wms.celery
from matching.models import Match
from matching.queries.rest import is_at_rest
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import ReplicaChange
from taskqueues.models import ChangedGroup, QueuedJob, StaleSubmitPools, TaskQueue, TaskQueueChange
from tests.factories import make_group, make_job, make_match, make_pilot, make_site
from wms.celery import SteadyScheduler, app
from wms.jobs.models import JobCountChange
from wms.kernel.db import database_now
from wms.schedule import REST_S, WHILE_BUSY

pytestmark = pytest.mark.django_db

LONG_AGO = timedelta(minutes=2)
#: {what keeps the system busy: what ends it}.
ENDS: Mapping[str, Callable[[], object]] = {
    "waiting jobs": lambda: (QueuedJob.objects.all().delete(), TaskQueue.objects.all().delete()),
    "leases": lambda: Match.objects.update(ended_at=database_now()),
    "pilots": lambda: Pilot.objects.update(status=PilotStatus.DONE, ended_at=database_now()),
    "priorities": lambda: ChangedGroup.objects.all().delete(),
    "submit pools": lambda: StaleSubmitPools.objects.all().delete(),
    "replicas": lambda: ReplicaChange.objects.all().delete(),
    "counts": lambda: JobCountChange.objects.all().delete(),
    "changes": lambda: TaskQueueChange.objects.update(changed_at=database_now() - LONG_AGO),
}


@pytest.fixture
def everything() -> None:
    """Give the system each kind of work."""
    group, now = make_group(), database_now()
    make_match(job=make_job(group=group), pilot=make_pilot(vo=group.vo))
    make_job(group=group)
    ChangedGroup.objects.create(group=group, changed_at=now)
    StaleSubmitPools.objects.create(vo=group.vo, changed_at=now)
    ReplicaChange.objects.create(vo=group.vo, lfn="/lhcb/data")


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("left", ENDS)
def test_each_kind_of_work_alone_keeps_the_system_busy(left: str) -> None:
    for kind in ENDS.keys() - {left, "changes"}:
        ENDS[kind]()
    if left != "changes":
        ENDS["changes"]()
    assert not is_at_rest()
    ENDS[left]()
    ENDS["changes"]()
    assert is_at_rest()


def test_a_changed_configuration_ends_the_rest_for_a_minute() -> None:
    assert is_at_rest()
    make_site()
    assert not is_at_rest()
    ENDS["changes"]()
    assert is_at_rest()


class Sending(SteadyScheduler):
    """A scheduler that keeps the names of what it sends."""

    def __init__(self, file: Path) -> None:
        self.sent: list[str] = []
        super().__init__(app=app, schedule_filename=str(file))

    def apply_async(
        self,
        entry: ScheduleEntry,
        producer: Producer | None = None,
        advance: bool = True,  # noqa: FBT002 - Celery's own
        **_options: object,
    ) -> None:
        self.sent.append(str(entry.name))


@pytest.fixture
def passed_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of beat, which a test moves."""
    passed_s = [1000.0]
    monkeypatch.setattr(wms.celery, "monotonic", lambda: passed_s[0])
    return passed_s


@pytest.fixture
def beat(tmp_path: Path) -> Iterator[Sending]:
    beat = Sending(tmp_path / "schedule")
    yield beat
    beat.close()


def sent_in_a_period(beat: Sending) -> set[str]:
    beat.sent.clear()
    for entry in beat.schedule.values():
        beat.apply_entry(entry)
    return {*beat.sent}


def test_frequent_tasks_rest_and_others_do_not(beat: Sending, passed_s: list[float]) -> None:
    every = {*beat.schedule}
    assert sent_in_a_period(beat) == every
    assert sent_in_a_period(beat) == every - WHILE_BUSY.keys()
    passed_s[0] += REST_S
    assert sent_in_a_period(beat) == every
    make_job()
    assert sent_in_a_period(beat) == every


@pytest.mark.usefixtures("passed_s")
def test_nothing_rests_while_the_database_is_away(beat: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    sent_in_a_period(beat)

    def away() -> bool:
        raise OperationalError

    monkeypatch.setattr(wms.celery, "is_at_rest", away)
    monkeypatch.setattr(connection, "close", lambda: None)
    assert sent_in_a_period(beat) == {*beat.schedule}
