"""The gauges of /metrics, measured on a planted system."""

import errno
import json
from datetime import timedelta

import msgspec
import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from redis import Redis

from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, DirectorRun
from resources.domain.enums import ResourceState, ThrottlePolicy
from resources.models import ThrottleState
from taskqueues.domain.usage import interval_of
from taskqueues.models import Limit, UsageInterval
from tests.factories import (
    make_black_hole,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_site,
    make_throttled_site,
    make_user,
    make_vo,
)
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now
from wms.kernel.models import Liveness
from wms.kernel.tasks import report_liveness
from wms.operations import broker, gauges, measurements
from wms.operations.disks import Disk
from wms.operations.gauges import GAUGES
from wms.operations.models import LastBackup, StoredMeasurements
from wms.operations.parts import Parts, PartState
from wms.operations.tasks import measure

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(vo=make_vo(name="lhcb"), name="lhcb_user")


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(groups=[group])


def measured(name: str) -> dict[tuple[str, ...], float]:
    """Return {values of labels: value} of a gauge, as it was stored and read again."""
    measure()
    found = measurements.latest()
    assert found is not None
    return {(*labels.values(),): value for labels, value in found.values[name]}


def test_an_empty_system_has_a_value_or_none_for_each_gauge() -> None:
    assert measurements.latest() is None
    before = database_now()
    measure()
    measure()
    found = measurements.latest()
    assert found is not None
    assert found.at >= before
    assert set(found.values) == {gauge.name for gauge in GAUGES}
    assert found.values["wms_jobs"] == []
    # Other processes of the tests send tasks to the same broker.
    assert [labels for labels, _ in found.values["wms_waiting_tasks"]] == [{"queue": "control"}, {"queue": "sites"}]
    ((_, free),), ((_, size),) = found.values["wms_disk_free_bytes"][:1], found.values["wms_disk_size_bytes"][:1]
    assert 0 < free < size
    assert dict(measured("wms_database_connections_limit"))[()] > 1
    assert measured("wms_database_size_bytes")[()] > 1_000_000


def test_jobs_are_counted_by_vo_status_and_site(alice: User, group: Group) -> None:
    site = make_site(name="LCG.CERN.ch")
    for status in (JobStatus.WAITING, JobStatus.WAITING, JobStatus.DONE):
        make_job(owner=alice, group=group, status=status)
    for status in (JobStatus.RUNNING, JobStatus.STALLED):
        make_job(owner=alice, group=group, status=status, site=site)
    assert measured("wms_jobs") == {
        ("lhcb", "Done"): 1,
        ("lhcb", "Running"): 1,
        ("lhcb", "Stalled"): 1,
        ("lhcb", "Waiting"): 2,
    }
    assert measured("wms_site_jobs") == {("LCG.CERN.ch", "Running"): 1, ("LCG.CERN.ch", "Stalled"): 1}


def test_each_waiting_job_has_one_reason(alice: User, group: Group) -> None:
    bob = make_user(groups=[group])
    make_queue(memory_mb=4000)
    make_queue(ce=make_ce(site=make_site(name="LCG.closed.ch")), memory_mb=4000, state=ResourceState.BANNED)
    make_job(owner=alice, group=group)
    for _ in range(2):
        make_job(owner=alice, group=group, memory_mb=64_000)
    for _ in range(3):
        make_job(owner=alice, group=group, sites=("LCG.closed.ch",))
    for _ in range(4):
        make_job(owner=alice, group=group, job_type="Limited")
    for _ in range(5):
        make_job(owner=bob, group=group)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    Limit.objects.create(job_type="Limited", running=0)

    assert measured("wms_waiting_jobs") == {
        ("lhcb", "pilot"): 1,
        ("lhcb", "no_queue"): 2,
        ("lhcb", "closed"): 3,
        ("lhcb", "limit"): 4,
        ("lhcb", "owner"): 5,
    }


def test_pilots_that_have_not_ended_are_counted_by_site(group: Group) -> None:
    queue = make_queue(ce=make_ce(site=make_site(name="LCG.CERN.ch")))
    for status in (PilotStatus.RUNNING, PilotStatus.RUNNING, PilotStatus.SUBMITTED):
        make_pilot(vo=group.vo, queue=queue, status=status)
    make_pilot(vo=group.vo, queue=queue, status=PilotStatus.DONE)
    make_pilot(vo=group.vo, queue=None, status=PilotStatus.RUNNING)
    assert measured("wms_pilots") == {
        ("LCG.CERN.ch", "Running"): 2,
        ("LCG.CERN.ch", "Submitted"): 1,
        ("", "Running"): 1,
    }


def test_delivered_shares_are_compared_with_the_configured_ones(group: Group) -> None:
    Group.objects.filter(pk=group.pk).update(priority=1)
    other = make_group(vo=group.vo, name="lhcb_prod", priority=3)
    for of, processor_s in ((group, 300.0), (other, 100.0)):
        UsageInterval.objects.create(
            group=of, cpu_segment_s=500, began_at=interval_of(database_now()), matches=1, processor_s=processor_s
        )
    # Three quarters instead of one, and a quarter instead of three.
    assert measured("wms_delivered_share_ratio") == {
        ("lhcb", "lhcb_user"): 3.0,
        ("lhcb", "lhcb_prod"): pytest.approx(1 / 3),
    }


def test_failing_computing_elements_black_holes_and_last_runs_are_seen(group: Group) -> None:
    site = make_site(name="LCG.CERN.ch")
    CEHealth.objects.create(ce=make_ce(site=site, name="ce1.cern.ch"), failures=3)
    CEHealth.objects.create(ce=make_ce(site=site, name="ce2.cern.ch"))
    make_black_hole(site=site, found_at=database_now())
    ran_at = database_now() - timedelta(hours=1)
    DirectorRun.objects.create(ran_at=ran_at, running_since=ran_at)
    report_liveness()

    assert measured("wms_ce_failed_rounds") == {("LCG.CERN.ch", "ce1.cern.ch"): 3, ("LCG.CERN.ch", "ce2.cern.ch"): 0}
    assert measured("wms_black_holes") == {("LCG.CERN.ch",): 1}
    runs = measured("wms_last_run_timestamp_seconds")
    assert runs["directors",] == ran_at.timestamp()
    assert runs["beat",] > ran_at.timestamp()


def test_tasks_that_wait_are_counted_by_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    # Queues that no other process of the tests uses.
    monkeypatch.setattr(broker, "QUEUES", ("of-this-test-empty", "of-this-test"))
    with Redis.from_url(settings.CACHES["rates"]["LOCATION"]) as redis:
        redis.rpush("of-this-test", "one", "two")
        try:
            assert measured("wms_waiting_tasks") == {("of-this-test-empty",): 0, ("of-this-test",): 2}
        finally:
            redis.delete("of-this-test")


def test_a_broker_that_is_away_leaves_only_its_gauge_empty(settings: Settings) -> None:
    rates = {**settings.CACHES["rates"], "LOCATION": "unix:///nowhere/valkey.sock"}
    settings.CACHES = {**settings.CACHES, "rates": rates}
    assert measured("wms_waiting_tasks") == {}
    assert measured("wms_database_connections_limit")[()] > 1


def test_a_volume_that_is_broken_leaves_only_its_gauges_empty(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Disk]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(gauges, "disks", broken)
    assert measured("wms_disk_free_bytes") == {}
    assert measured("wms_database_connections_limit")[()] > 1
    assert {(record.message, record.__dict__["gauge"]) for record in caplog.records} == {
        ("gauge.unreadable", "wms_disk_free_bytes"),
        ("gauge.unreadable", "wms_disk_size_bytes"),
    }


def test_throttles_that_let_no_job_pass_are_seen() -> None:
    make_site(name="without")
    now = database_now()
    for name, max_matches in (("open", 5), ("closed", 0)):
        ThrottleState.objects.create(
            site=make_throttled_site(name=name, policy=ThrottlePolicy.MATCHES, max_matches=max_matches),
            version=0,
            advertised={"CurMatches": 0},
            matched=0,
            measured_at=now,
            expires_at=now + timedelta(hours=1),
        )
    assert measured("wms_throttle_closed") == {("open",): 0, ("closed",): 1}


def test_the_last_backup_and_the_clock_are_seen() -> None:
    assert measured("wms_last_backup_timestamp_seconds") == {}
    last = LastBackup.objects.create(finished_at=database_now())
    assert measured("wms_last_backup_timestamp_seconds") == {(): last.finished_at.timestamp()}
    assert abs(measured("wms_clock_ahead_seconds")[()]) < 3600
    with pytest.raises(IntegrityError, match="last_backup_has_one_row"), transaction.atomic():
        LastBackup.objects.create(pk=2, finished_at=database_now())


def test_runs_of_periodic_tasks_are_seen() -> None:
    started_at = database_now() - timedelta(minutes=3)
    runs = {
        "jobs.add_counts": {"started_at": started_at, "ended_at": started_at, "duration_s": 2.0, "lateness_s": 7.0},
        "jobs.send_notices": {"started_at": started_at, "failing_since": started_at},
        "pilots.remove_old_logs": {"expected_at": started_at},
    }
    stored = json.loads(msgspec.json.encode(runs))
    Liveness.objects.create(name="beat", reported_at=started_at, runs=stored)
    expected = {task: {"expected_at": stored["pilots.remove_old_logs"]["expected_at"]} for task in runs}
    for name in ("a worker before", "sites"):  # in either order of the rows
        Liveness.objects.create(name=name, reported_at=started_at, runs=expected)
    assert measured("wms_task_start_timestamp_seconds") == {
        ("jobs.add_counts",): started_at.timestamp(),
        ("jobs.send_notices",): started_at.timestamp(),
    }
    assert measured("wms_task_lateness_seconds")["jobs.add_counts",] == 7.0
    assert measured("wms_task_duration_seconds") == {("jobs.add_counts",): 2.0}
    fails = {"jobs.add_counts": 0, "jobs.send_notices": 1, "pilots.remove_old_logs": 0}
    assert measured("wms_task_fails") == {(task,): value for task, value in fails.items()}


def test_restarts_are_those_that_the_supervisor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("wms_part_restarts") == {}
    shared = {"running_s": 5.0, "hangs_s": 0.0, "restarts_lately": 0, "last_reason": "", "processes": [], "left": []}
    parts = [PartState(name=name, restarts=number, **shared) for name, number in (("web", 2), ("beat", 0))]  # type: ignore[arg-type]
    monkeypatch.setattr(gauges, "read_parts", lambda: Parts(supervisor_s=9.0, parts=parts))
    assert measured("wms_part_restarts") == {("web",): 2, ("beat",): 0}


def test_the_statements_are_as_many_for_a_job_as_for_many(alice: User, group: Group) -> None:
    make_queue(memory_mb=4000)
    statements = []
    for jobs in (1, 10):
        for _ in range(jobs):
            make_job(owner=alice, group=group)
        measurements.measure()
        with CaptureQueriesContext(connection) as seen:
            measurements.measure()
        statements.append(len(seen))
    assert statements[0] == statements[1]
    assert statements[0] < 60


def test_the_measurements_are_one_row() -> None:
    with pytest.raises(IntegrityError, match="measurements_have_one_row"), transaction.atomic():
        StoredMeasurements.objects.create(pk=2, measured_at=database_now(), values={})
