"""Usage of groups, counted from their leases (ADR 13)."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from matching.models import Match
from matching.queries.shares import delivered_by_leases
from matching.services import accounting
from taskqueues.domain.usage import INTERVAL, UsageAmount, interval_of
from taskqueues.models import GroupUsage, UsageCounter, UsageInterval
from taskqueues.services import usage
from tests.clock import pass_time
from tests.factories import NOW, make_group, make_job, make_match, make_pilot
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


@pytest.fixture
def group() -> Group:
    return make_group()


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def lease(group: Group, *, begins: datetime, ends: datetime | None = None, **description: object) -> Match:
    job = make_job(group=group, status=JobStatus.RUNNING, **description)  # type: ignore[arg-type]
    return make_match(job=job, leased_at=begins, ended_at=ends)


def test_of_each_lease_the_part_within_the_time_counts(group: Group) -> None:
    lease(group, begins=at(-100), ends=at(10), cpu_time_s=500)  # 10 s
    lease(group, begins=at(20), ends=at(50), cpu_time_s=500)  # 30 s, and a match
    lease(group, begins=at(-100), cpu_time_s=500)  # open: all 60 s
    lease(group, begins=at(59), ends=at(500), cpu_time_s=500)  # 1 s, and a match
    lease(group, begins=at(-50), ends=at(0), cpu_time_s=500)  # ended before
    lease(group, begins=at(60), cpu_time_s=500)  # begins after
    assert delivered_by_leases(since=NOW, until=at(60)) == {(group.pk, 500): UsageAmount(2, 101.0)}


def test_time_counts_for_each_processor_and_under_the_segment_of_the_jobs_description(group: Group) -> None:
    lease(group, begins=NOW, ends=at(10), cpu_time_s=501, processors=8)
    lease(group, begins=NOW, ends=at(10), cpu_time_s=5000)
    lease(group, begins=NOW, ends=at(10), cpu_time_s=10**6)
    assert delivered_by_leases(since=NOW, until=at(60)) == {
        (group.pk, 5000): UsageAmount(2, 90.0),
        (group.pk, 300_000): UsageAmount(1, 10.0),
    }


def test_segments_are_those_of_the_setting(group: Group, settings: Settings) -> None:
    settings.WMS_CPU_SEGMENTS_S = [100, 200]
    lease(group, begins=NOW, ends=at(10), cpu_time_s=150)
    assert list(delivered_by_leases(since=NOW, until=at(60))) == [(group.pk, 200)]


def test_leases_are_counted_by_vo_and_group(group: Group) -> None:
    other = make_group()
    for of in (group, other):
        lease(of, begins=NOW, ends=at(10))
    assert list(delivered_by_leases(since=NOW, until=at(60), vo_id=other.vo_id)) == [(other.pk, 300_000)]


def test_the_leases_of_a_time_are_found_without_reading_all(group: Group) -> None:
    pilot, job = make_pilot(), make_job(group=group, status=JobStatus.DONE)
    for number in range(2000):
        make_match(job=job, pilot=pilot, leased_at=at(-number - 1), ended_at=at(-number))
    lease(group, begins=NOW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE matching_match")
    with CaptureQueriesContext(connection) as queries:
        delivered_by_leases(since=NOW, until=at(60))
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + queries.captured_queries[0]["sql"])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Seq Scan on matching_match" not in plan, plan
    assert "match_ended" in plan
    assert "match_open" in plan


def counted() -> tuple[int, float, float]:
    """Return the matches and seconds of all intervals, and the usage."""
    rows = UsageInterval.objects.values_list("matches", "processor_s")
    use = GroupUsage.objects.values_list("used_s", flat=True)
    return sum(matches for matches, _ in rows), sum(seconds for _, seconds in rows), sum(use)


def test_everything_is_counted_once_however_often_and_late_it_is_counted(group: Group) -> None:
    now = database_now()
    lease(group, begins=now - timedelta(seconds=1000), ends=now - timedelta(seconds=900))
    lease(group, begins=now - timedelta(seconds=500))
    assert accounting.count_deliveries() > 1  # the intervals since the first lease
    matches, seconds, used = counted()
    assert matches == 2
    assert 100 + 500 - 60 <= seconds <= 100 + 500 - 60 + seconds_since(now)
    assert used == pytest.approx(seconds, rel=1e-2)
    counted_until = UsageCounter.objects.get().counted_until
    steps = accounting.count_deliveries()  # the moment since, perhaps across the end of an interval
    assert steps <= 1 + (interval_of(UsageCounter.objects.get().counted_until) - interval_of(counted_until)) / INTERVAL
    pass_time(minutes=30)
    assert accounting.count_deliveries() >= 6
    matches, seconds, _ = counted()
    assert matches == 2
    assert 100 + 500 + 1800 - 60 <= seconds <= 100 + 500 - 60 + seconds_since(now)


def seconds_since(then: datetime) -> float:
    return (database_now() - then).total_seconds()


def test_an_incomplete_count_is_repeated_as_a_whole(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    now = database_now()
    lease(group, begins=now - timedelta(seconds=1000), ends=now - timedelta(seconds=900))
    record = usage.record

    class PowerCutError(Exception):
        pass

    def record_and_die(*args: object, **kwargs: object) -> None:
        record(*args, **kwargs)  # type: ignore[arg-type]
        raise PowerCutError

    monkeypatch.setattr(usage, "record", record_and_die)
    with pytest.raises(PowerCutError):
        accounting.count_deliveries()
    assert (counted(), UsageCounter.objects.count()) == ((0, 0, 0), 0)
    monkeypatch.setattr(usage, "record", record)
    accounting.count_deliveries()
    assert list(counted()[:2]) == pytest.approx([1, 100.0], abs=1e-3)


def test_an_interval_is_not_mixed_with_the_next(group: Group) -> None:
    now = database_now()
    lease(group, begins=interval_of(now) - 3 * INTERVAL, ends=interval_of(now) - INTERVAL)
    accounting.count_deliveries()
    begun = interval_of(now) - 3 * INTERVAL
    amounts = UsageInterval.objects.order_by("began_at").values_list("began_at", "matches", "processor_s")
    assert list(amounts) == [(begun, 1, 300.0), (begun + INTERVAL, 0, 300.0)]


def test_a_run_after_a_long_outage_leaves_the_rest_to_the_next(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "AT_ONCE", 3)
    lease(group, begins=database_now() - timedelta(hours=1))
    assert accounting.count_deliveries() == 3
    assert counted()[1] < 901
    while accounting.count_deliveries() == 3:
        pass
    assert counted()[1] == pytest.approx(3600 - 60, abs=5)


def test_a_new_system_has_nothing_to_count() -> None:
    assert accounting.count_deliveries() == 0
    assert UsageCounter.objects.get().counted_until <= database_now()
