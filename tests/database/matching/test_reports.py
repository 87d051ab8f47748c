"""Status reports and ends of leases are one statement each, in whatever state lease, job and pilot are."""

from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from matching.models import Match
from matching.services import leases
from matching.services.leases import LeaseEndedError, LeaseRenewal, NoSuchLeaseError
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from pilots.services.reports import PilotRevokedError
from tests.clock import pass_time
from tests.factories import NOW, make_job, make_pilot
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory, Sandbox, SandboxUpload
from wms.jobs.services.sandboxes import UnusableSandboxError, reference_of
from wms.kernel.db import database_now
from wms.kernel.errors import WmsError
from wms.wire.protocol import Tails, Usage, output_sandbox_name

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

USAGE = Usage(cpu_s=10.0, wall_s=20.0, memory_mb=30.0, disk_mb=40.0)


@pytest.fixture
def lease() -> Match:
    job = make_job()
    offer = OfferRequest(cpu_time_s=300_000)
    match(offer, request_id=uuid4(), pilot_id=make_pilot(vo=job.vo).pk, max_jobs=1, chance=Random(1))
    return Match.objects.get()


@pytest.fixture
def output(lease: Match) -> Sandbox:
    """Output that was uploaded for the job of the lease."""
    sandbox = Sandbox.objects.create(digest="1" * 64, size_bytes=1, is_archive=True, created_at=NOW)
    SandboxUpload.objects.create(
        sandbox=sandbox, owner=lease.job.owner, file_name=output_sandbox_name(lease.job_id), uploaded_at=NOW
    )
    return sandbox


def report(lease: Match, status: JobStatus = JobStatus.RUNNING) -> LeaseRenewal:
    return leases.report_status(lease.pk, status=status)


def end(lease: Match, exit_code: int | None = 1, output_sandbox: str | None = None) -> JobStatus:
    return leases.finish(lease.pk, exit_code=exit_code, minor=None, usage=USAGE, output_sandbox=output_sandbox)


def rows() -> tuple[object, ...]:
    models = (Job, JobHistory, JobCommand, Match, Pilot)
    return tuple(list(model._default_manager.order_by("pk").values()) for model in models)


def test_ordinary_reports_use_no_orm_query(
    lease: Match, output: Sandbox, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        leases.report_status(lease.pk, status=JobStatus.RUNNING)
        leases.report_status(lease.pk, status=JobStatus.COMPLETING)
        ended = leases.finish(
            lease.pk,
            exit_code=0,
            minor=None,
            usage=USAGE,
            output_sandbox=reference_of(output),
            tails=Tails("out", "err"),
        )
    assert ended is JobStatus.DONE
    job = Job.objects.get()
    assert (job.status, job.exit_code, job.cpu_s, job.output_sandbox) == (JobStatus.DONE, 0, USAGE.cpu_s, output)
    assert (job.std_output_tail, job.std_error_tail) == ("out", "err")
    assert list(job.history.order_by("pk").values_list("status", flat=True)) == [
        *(JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING, JobStatus.DONE)
    ]


@pytest.mark.parametrize("exit_code", [1, None])
def test_an_end_without_a_result_uses_no_orm_query(
    lease: Match, exit_code: int | None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        ended = leases.finish(lease.pk, exit_code=exit_code, minor=None, usage=USAGE, output_sandbox=None)
    assert ended is JobStatus.FAILED


def test_the_start_time_is_set_once(lease: Match) -> None:
    report(lease)
    begun_at = Job.objects.get().started_at
    assert begun_at is not None
    Job.objects.update(status=JobStatus.STALLED)
    pass_time(minutes=1)
    report(lease)
    assert Job.objects.get().started_at == begun_at


def test_commands_come_with_a_report_and_end_with_the_lease(lease: Match) -> None:
    command = JobCommand.objects.create(job_id=lease.job_id, name="peek", created_at=timezone.now())
    answer = report(lease)
    assert answer.commands == [command]
    assert end(lease) is JobStatus.FAILED
    assert JobCommand.objects.get().acknowledged_at == Match.objects.get().ended_at


@pytest.mark.parametrize("seconds_ago", [10, 1000])
def test_the_pilot_is_seen_as_often_as_by_heartbeats(lease: Match, seconds_ago: int) -> None:
    seen_at = database_now() - timedelta(seconds=seconds_ago)
    Pilot.objects.update(last_seen_at=seen_at)
    report(lease)
    assert (Pilot.objects.get().last_seen_at == seen_at) == (seconds_ago == 10)
    Pilot.objects.update(last_seen_at=seen_at)
    assert end(lease)
    assert (Pilot.objects.get().last_seen_at == seen_at) == (seconds_ago == 10)


@pytest.mark.parametrize(
    ("why", "refusal"), [("unknown", NoSuchLeaseError), ("ended", LeaseEndedError), ("revoked", PilotRevokedError)]
)
def test_a_refused_report_changes_nothing(lease: Match, why: str, refusal: type[WmsError]) -> None:
    if why == "unknown":
        lease.pk = uuid4()
    Match.objects.filter(pk=lease.pk).update(ended_at=NOW if why == "ended" else None)
    Pilot.objects.update(revoked_at=NOW if why == "revoked" else None, last_seen_at=None)
    before = rows()
    for refused in (report, end):
        with pytest.raises(refusal):
            refused(lease)
    assert before == rows()


@pytest.mark.parametrize("status", [JobStatus.MATCHED, JobStatus.STALLED])
def test_a_success_in_a_status_that_does_not_lead_to_done_passes_completing(
    lease: Match, status: JobStatus, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    Job.objects.update(status=status, minor_status="before")
    with django_assert_num_queries(0):
        assert end(lease, exit_code=0) is JobStatus.DONE
    lines = Job.objects.get().history.order_by("pk").values_list("status", "minor_status")
    assert list(lines)[1:] == [("Completing", ""), ("Done", "Execution complete")]


@pytest.mark.parametrize("wrong", ["content", "owner", "name"])
def test_an_end_with_output_that_was_not_uploaded_for_the_job_is_refused(
    lease: Match, output: Sandbox, wrong: str
) -> None:
    upload = SandboxUpload.objects.get()
    if wrong == "owner":
        upload.owner = make_job().owner
    upload.file_name = "other" if wrong == "name" else upload.file_name
    upload.save()
    Pilot.objects.update(last_seen_at=None)
    before = rows()
    with pytest.raises(UnusableSandboxError) as refusal:
        end(lease, output_sandbox="sha256:" + "2" * 64 if wrong == "content" else reference_of(output))
    assert list(refusal.value.errors) == ["output_sandbox"]
    assert before == rows()
