"""The form that retries failed jobs with changes."""

from http import HTTPStatus
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.factories import make_job
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobRetry

pytestmark = pytest.mark.django_db


@pytest.fixture
def failed(alice: User, group: Group) -> list[Job]:
    return [make_job(owner=alice, group=group, status=JobStatus.FAILED, arguments="--seed 7") for _ in range(2)]


def test_what_is_written_is_changed_and_the_rest_stays(portal: Client, failed: list[Job]) -> None:
    assert "Retry 2 jobs with changes" in portal.get("/jobs/retry/", {"q": "status:failed"}).content.decode()
    form = {"memory_mb": "4 GB", "request_id": str(uuid4()), "input_files": SimpleUploadedFile("run.sh", b"exit 0")}
    page = portal.post("/jobs/retry/?q=status:failed", form, follow=True)
    assert "2 jobs submitted in their place." in page.content.decode()
    for retried in JobRetry.objects.order_by("pk"):
        job = Job.objects.with_description().get(pk=retried.pk)
        description = job.description
        assert (description["memory_mb"], description["arguments"], len(description["input_sandbox"])) == (
            4000, "--seed 7", 1,
        )  # fmt: skip


def test_a_job_and_its_retry_lead_to_each_other(portal: Client, failed: list[Job]) -> None:
    old = failed[0]
    page = portal.get(f"/jobs/{old.pk}/")
    portal.post(page.context["job"].retry_url, {"memory_mb": "4 GB", "request_id": str(uuid4())})
    new = JobRetry.objects.get()
    after = portal.get(f"/jobs/{old.pk}/", headers={"If-None-Match": page["ETag"]})
    assert after.status_code == HTTPStatus.OK
    assert after.context["job"].retry_url == ""
    assert f'<a href="/jobs/{new.pk}/">job {new.pk}</a>' in after.content.decode()
    assert f'<a href="/jobs/{old.pk}/">job {old.pk}</a>' in portal.get(f"/jobs/{new.pk}/").content.decode()


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({}, "Say what to change"),
        ({"memory_mb": "much"}, "Write a number and a unit"),
        ({"sites": "LCG.NoSuch.org"}, "LCG.NoSuch.org"),
    ],
)
def test_wrong_changes_are_said_at_their_field_and_nothing_is_submitted(
    portal: Client, failed: list[Job], form: dict[str, str], sentence: str
) -> None:
    answer = portal.post("/jobs/retry/?q=status:failed", {**form, "request_id": str(uuid4())})
    assert (answer.status_code, sentence in answer.content.decode()) == (HTTPStatus.BAD_REQUEST, True)
    assert Job.objects.count() == len(failed)
