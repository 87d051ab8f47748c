"""Failures at a site over REST: host, times, phase and exit code; words and output only where the VO lets sites see."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from matching.models import Match
from pilots.models import Pilot
from resources.models import Queue
from resources.services.administrators import make_administrator
from tests.api.administration.conftest import Administration, client_of
from tests.factories import make_group, make_job, make_match, make_pilot, make_user, make_vo
from wms.accounts.models import VO, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def administrator(administration: Administration) -> APIClient:
    user = make_user(username="sandra")
    make_administrator(administration.own.site, user, by=None, now=NOW)
    return client_of(user)


def failed_attempt(queue: Queue, *, owner: User, vo: VO, status: JobStatus = JobStatus.FAILED, **columns: Any) -> Match:
    """Return a lease of a job that ran for half an hour, and failed with 139."""
    pilot = make_pilot(vo=vo, queue=queue)
    Pilot.objects.filter(pk=pilot.pk).update(host_name="node7", **columns)
    group = make_group(vo=vo)
    leased_at, ended_at = NOW - timedelta(hours=1), NOW - timedelta(minutes=30)
    job = make_job(
        owner=owner, group=group, status=status, job_name="her-secret-name", std_error_tail="her\nlast words"
    )
    is_final = status is JobStatus.FAILED
    Job.objects.filter(pk=job.pk).update(exit_code=139, ended_at=ended_at if is_final else None)
    match = make_match(job=job, pilot=pilot, leased_at=leased_at, ended_at=ended_at)
    Match.objects.filter(pk=match.pk).update(queue=queue, end_reason="finished")
    for at, name, minor in (
        (leased_at, JobStatus.MATCHED, ""),
        (leased_at + timedelta(minutes=1), JobStatus.RUNNING, ""),
        (ended_at, status, "Payload of her-secret-name was killed"),
    ):
        JobHistory.objects.create(job=job, changed_at=at, status=name, minor_status=minor, source="pilot")
    return match


def rows(client: APIClient, site: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/sites/{site}/failures/")
    assert answer.status_code == 200, answer.json()
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def test_an_administrator_is_told_host_times_phase_and_exit_code_and_nothing_of_the_job(
    administration: Administration, administrator: APIClient
) -> None:
    own = administration.own
    match = failed_attempt(own.queue, owner=own.member, vo=own.vo)
    (row,) = rows(administrator, own.site.name)
    assert (row["host"], row["pilot"], row["phase"], row["exit_code"]) == ("node7", match.pilot_id, "payload", 139)
    assert (row["reason"], row["lines"]) == ("", "")
    said = str(row)
    assert all(name not in said for name in ("her-secret-name", own.member.username, own.group.name, "last words"))


def test_a_vo_that_lets_sites_see_shows_the_reason_and_the_last_lines(
    administration: Administration, administrator: APIClient
) -> None:
    own = administration.own
    VO.objects.filter(pk=own.vo.pk).update(outputs_for_sites=True)
    failed_attempt(own.queue, owner=own.member, vo=own.vo)
    (row,) = rows(administrator, own.site.name)
    assert (row["reason"], row["lines"]) == ("Payload of her-secret-name was killed", "her\nlast words")


def test_a_manager_is_told_of_jobs_of_managed_vos_only_and_why(administration: Administration) -> None:
    own, cms = administration.own, make_vo(name="cms")
    own.site.vos.add(cms)
    failed_attempt(own.queue, owner=own.member, vo=cms)
    mine = failed_attempt(own.queue, owner=own.member, vo=own.vo)
    (row,) = rows(administration.manager, own.site.name)
    assert (row["pilot"], row["reason"]) == (mine.pilot_id, "Payload of her-secret-name was killed")
    assert len(rows(administration.operator, own.site.name)) == 2


def test_what_a_drained_pilot_gave_back_is_no_failure_and_what_ran_again_has_no_exit_code(
    administration: Administration, administrator: APIClient
) -> None:
    own = administration.own
    failed_attempt(own.queue, owner=own.member, vo=own.vo, status=JobStatus.RESCHEDULED, drained_at=NOW)
    assert rows(administrator, own.site.name) == []
    failed_attempt(own.queue, owner=own.member, vo=own.vo, status=JobStatus.RESCHEDULED)
    (row,) = rows(administrator, own.site.name)
    assert (row["phase"], row["exit_code"]) == ("payload", None)


def test_failures_at_other_sites_are_not_there(administration: Administration, administrator: APIClient) -> None:
    other = administration.other
    failed_attempt(other.queue, owner=other.member, vo=other.vo)
    assert administrator.get(f"/api/v1/sites/{other.site.name}/failures/").status_code == 404
    assert rows(administrator, administration.own.site.name) == []
