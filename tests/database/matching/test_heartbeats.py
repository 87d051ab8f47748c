"""A heartbeat is one statement, and writes no index."""

import re
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from matching.models import Match
from matching.services import leases
from matching.services.leases import LeaseEndedError, LeaseRenewal, NoSuchLeaseError
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from pilots.services.reports import PilotRevokedError
from tests.clock import pass_time
from tests.factories import NOW, make_job, make_pilot
from wms.jobs.models import Job, JobCommand, OutputTail, UsageSamples
from wms.kernel.db import database_now
from wms.kernel.errors import WmsError
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

USAGE = Usage(cpu_s=10.0, wall_s=20.0, memory_mb=30.0, disk_mb=40.0)
#: By table.
WRITTEN = {
    "jobs_job": {"heartbeat_at", "cpu_s", "wall_s", "max_memory_mb", "max_disk_mb"},
    "jobs_outputtail": {"std_output", "std_error"},
    "jobs_usagesamples": {"samples"},
    "matching_match": {"expires_at", "reported_at"},
    "pilots_pilot": {"last_seen_at"},
}


@pytest.fixture
def lease() -> Match:
    job = make_job()
    offer = OfferRequest(cpu_time_s=300_000)
    match(offer, request_id=uuid4(), pilot_id=make_pilot(vo=job.vo).pk, max_jobs=1, chance=Random(1))
    return Match.objects.get()


def renew(lease: Match, usage: Usage = USAGE, **tails: str) -> LeaseRenewal:
    return leases.heartbeat(lease.pk, usage=usage, tails=Tails(**tails), acknowledged=[])


def row_of(table: str) -> dict[str, object]:
    (model,) = (model for model in (Job, OutputTail, UsageSamples, Match, Pilot) if model._meta.db_table == table)
    return dict(model._default_manager.values().get())


def test_an_ordinary_heartbeat_uses_no_orm_query(
    lease: Match, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        leases.heartbeat(lease.pk, usage=USAGE, tails=Tails("x", "y"), acknowledged=[])


@pytest.mark.parametrize("table", WRITTEN)
def test_an_ordinary_heartbeat_writes_no_indexed_column(lease: Match, table: str) -> None:
    """Else each heartbeat would write all indexes of the row, instead of none (HOT)."""
    Job.objects.update(started_at=database_now() - timedelta(seconds=59))
    for tail in ("v", "w"):
        pass_time(seconds=61)
        renew(lease, Usage(), std_output=tail, std_error=tail)
    before = row_of(table)
    Pilot.objects.update(last_seen_at=None)
    pass_time(seconds=61)
    renew(lease, std_output="x", std_error="x")
    after = row_of(table)
    assert {column for column in after if before[column] != after[column]} == WRITTEN[table]
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(indexdef, ' ') FROM pg_indexes WHERE tablename = %s", [table])
        (definitions,) = cursor.fetchone()
    assert not WRITTEN[table] & set(re.findall(r"\w+", definitions))


@pytest.mark.parametrize(("tails", "waits"), [(NO_TAILS, "off"), (Tails("x"), "on"), (Tails(std_error="x"), "on")])
def test_only_lines_of_output_wait_until_they_are_on_disk(lease: Match, tails: Tails, waits: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = on")
        leases.heartbeat(lease.pk, usage=USAGE, tails=tails, acknowledged=[])
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == (waits,)


def test_a_heartbeat_renews_only_the_lease_of_its_pilot(lease: Match) -> None:
    other = make_pilot(vo=Pilot.objects.get().vo)
    with pytest.raises(NoSuchLeaseError):
        leases.heartbeat(lease.pk, of=other.pk, usage=USAGE, tails=NO_TAILS, acknowledged=[])
    assert Job.objects.get().cpu_s is None
    leases.heartbeat(lease.pk, of=lease.pilot_id, usage=USAGE, tails=NO_TAILS, acknowledged=[])
    assert Job.objects.get().cpu_s == USAGE.cpu_s


def test_a_heartbeat_stores_maxima_and_last_lines(lease: Match) -> None:
    renew(lease, std_output="first")
    renew(lease, Usage(cpu_s=11.0, wall_s=1.0), std_error="second")
    renew(lease, Usage())
    job = Job.objects.get()
    assert (job.cpu_s, job.wall_s, job.max_memory_mb, job.max_disk_mb) == (11.0, 20.0, 30.0, 40.0)
    assert (job.std_output_tail, job.std_error_tail) == ("first", "second")
    assert job.heartbeat_at == Match.objects.get().reported_at


def test_unmeasured_usage_stays_unknown(lease: Match) -> None:
    renew(lease, Usage())
    job = Job.objects.get()
    assert (job.cpu_s, job.wall_s, job.max_memory_mb, job.max_disk_mb) == (None, None, None, None)


def test_a_lease_that_was_lengthened_is_not_shortened(lease: Match) -> None:
    later = database_now() + timedelta(hours=5)
    Match.objects.update(expires_at=later, reported_at=database_now())
    answer = renew(lease)
    assert answer.expires_at == later == Match.objects.get().expires_at


def test_the_first_report_ends_the_first_lease_whatever_its_length(lease: Match) -> None:
    Match.objects.update(expires_at=database_now() + timedelta(hours=5))
    answer = renew(lease)
    assert answer.expires_at < database_now() + timedelta(hours=1)


def test_commands_are_returned_oldest_first_until_acknowledged(lease: Match) -> None:
    orders = [
        JobCommand.objects.create(job_id=lease.job_id, name=name, arguments={"n": name}, created_at=NOW)
        for name in ("peek", "kill")
    ]
    JobCommand.objects.create(job_id=lease.job_id, name="peek", created_at=NOW, acknowledged_at=NOW)
    for _ in range(2):
        answer = renew(lease)
        assert answer.commands == orders
        assert [order.arguments for order in answer.commands] == [{"n": "peek"}, {"n": "kill"}]


@pytest.mark.parametrize(
    ("seconds_ago", "lost_after_s", "is_written"),
    [(None, 1800, True), (100, 1800, False), (130, 1800, True), (100, 600, True), (3, 20, True), (1, 20, False)],
)
def test_last_seen_is_written_at_intervals_only(
    lease: Match, settings: Settings, seconds_ago: int | None, lost_after_s: int, is_written: bool
) -> None:
    settings.WMS_PILOT_LOST_S = lost_after_s
    seen_at = None if seconds_ago is None else database_now() - timedelta(seconds=seconds_ago)
    Pilot.objects.update(last_seen_at=seen_at)
    renew(lease)
    pilot = Pilot.objects.get()
    assert (pilot.last_seen_at != seen_at) == is_written
    assert pilot.last_seen_at is not None
    assert database_now() - pilot.last_seen_at < timedelta(seconds=lost_after_s / 5)


@pytest.mark.parametrize(
    ("why", "refusal"), [("unknown", NoSuchLeaseError), ("ended", LeaseEndedError), ("revoked", PilotRevokedError)]
)
def test_a_refused_heartbeat_changes_nothing(lease: Match, why: str, refusal: type[WmsError]) -> None:
    if why == "unknown":
        lease.pk = uuid4()
    Match.objects.filter(pk=lease.pk).update(ended_at=NOW if why == "ended" else None)
    Pilot.objects.update(revoked_at=NOW if why == "revoked" else None)
    before = Job.objects.values().get(), Match.objects.values().get()
    with pytest.raises(refusal):
        renew(lease, std_output="x")
    assert before == (Job.objects.values().get(), Match.objects.values().get())
