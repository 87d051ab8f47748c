"""A suspension ends the payloads of a person (ADR 111)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import NOW, make_group, make_job, make_user, make_vo
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory
from wms.jobs.services import counting
from wms.jobs.services.suspensions import SuspensionResult, end_payloads_of_suspended, restore, suspend
from wms.jobs.tasks import end_payloads_of_suspended as task

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(name="lhcb_user", vo=make_vo(name="lhcb"))


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


@pytest.fixture
def manager(group: Group) -> User:
    return make_user(username="mallory", manages=[group.vo])


@pytest.mark.parametrize("status", sorted(LEASED))
def test_what_pilots_hold_is_killed_and_their_pilots_get_the_command(
    status: JobStatus, alice: User, group: Group, manager: User
) -> None:
    job = make_job(owner=alice, group=group, status=status)
    assert suspend([alice], reason="", by=manager, now=NOW) == SuspensionResult(killed=1, waiting=0)
    job.refresh_from_db()
    assert (job.status, job.minor_status, job.ended_at) == (JobStatus.KILLED, "Owner suspended", NOW)
    assert JobCommand.objects.get().job == job
    assert JobHistory.objects.get(job=job).source == "mallory"


def test_other_jobs_stay_as_they_are(alice: User, group: Group, manager: User) -> None:
    statuses = (JobStatus.WAITING, JobStatus.HELD, JobStatus.CHECKING, JobStatus.RESCHEDULED, JobStatus.DONE)
    for status in statuses:
        make_job(owner=alice, group=group, status=status)
    of_another = make_job(group=group, status=JobStatus.RUNNING)
    result = suspend([alice], reason="", by=manager, now=NOW)
    assert result == SuspensionResult(killed=0, waiting=3)
    assert sorted(alice.jobs.values_list("status", flat=True)) == sorted(statuses)
    of_another.refresh_from_db()
    assert of_another.status == JobStatus.RUNNING
    assert restore([alice], reason="", by=manager) == SuspensionResult(killed=None, waiting=3)


def test_payloads_in_a_vo_that_the_manager_does_not_see_end_too_and_are_not_counted(alice: User, manager: User) -> None:
    elsewhere = make_job(owner=alice, group=make_group(vo=make_vo(name="atlas")), status=JobStatus.RUNNING)
    assert suspend([alice], reason="", by=manager, now=NOW).killed == 0
    elsewhere.refresh_from_db()
    assert elsewhere.status == JobStatus.KILLED


def test_a_job_that_was_leased_during_the_suspension_is_killed_by_the_task(
    alice: User, group: Group, manager: User
) -> None:
    suspend([alice], reason="", by=manager, now=NOW)
    job = make_job(owner=alice, group=group, status=JobStatus.MATCHED)
    make_job(group=group, status=JobStatus.RUNNING)
    counting.add_changes()
    task()
    job.refresh_from_db()
    assert (job.status, job.minor_status) == (JobStatus.KILLED, "Owner suspended")
    assert Job.objects.filter(status=JobStatus.RUNNING).count() == 1
    assert end_payloads_of_suspended(now=NOW) == 0


def test_statements_do_not_grow_with_people_and_jobs(group: Group, manager: User) -> None:
    def statements(people: int, jobs: int) -> int:
        suspended = [make_user(groups=[group]) for _ in range(people)]
        for person in suspended:
            for _ in range(jobs):
                make_job(owner=person, group=group, status=JobStatus.RUNNING)
        User.objects.filter(pk__in=[person.pk for person in suspended]).update(is_active=False)
        with CaptureQueriesContext(connection) as queries:
            assert end_payloads_of_suspended(now=NOW) == people * jobs
        return len(queries)

    assert statements(1, 21) == statements(3, 11)
