"""POST /api/v1/jobs/retry/: new jobs, with changes, in the place of failed ones."""

from collections.abc import Callable
from io import BytesIO
from typing import Any
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from tests.factories import make_group, make_job
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobRetry, Submission
from wms.jobs.services import sandboxes
from wms.kernel.clock import current_time

pytestmark = pytest.mark.django_db

Clients = Callable[[User], APIClient]
ADDRESS = "/api/v1/jobs/retry/"


@pytest.fixture
def failed(sample: SampleData) -> list[Job]:
    return [
        make_job(
            owner=sample.alice, group=sample.users, status=JobStatus.FAILED, job_name=f"scan-{seed}",
            arguments=f"--seed {seed} %%j",
        )
        for seed in range(3)
    ]  # fmt: skip


def retry(client: APIClient, status: int = 201, **body: object) -> Any:
    answer = client.post(ADDRESS, body, format="json")
    assert answer.status_code == status, answer.json()
    return answer.json()


def ids(jobs: list[Job]) -> list[int]:
    return [job.pk for job in jobs]


def test_each_job_gets_a_successor_with_the_changes_and_stays_as_it_ended(alice: APIClient, failed: list[Job]) -> None:
    answer = retry(alice, ids=ids(failed), changes={"memory_mb": 4000, "banned_sites": ["LCG.CERN.ch"]})
    assert (answer["retried"], answer["refused"]) == (ids(failed), [])
    new = [Job.objects.with_description().get(pk=job["id"]) for job in answer["jobs"]]
    assert [job.retry_of.predecessor_id for job in new] == ids(failed)
    for old, job in zip(failed, new, strict=True):
        kept = Job.objects.with_description().get(pk=old.pk)
        assert (kept.status, kept.description) == (JobStatus.FAILED, old.description)
        changed = {"memory_mb": 4000, "banned_sites": ["LCG.CERN.ch"]}
        assert {**job.description, **changed} == {**old.description, **changed} == job.description


def test_a_filter_finds_the_failed_jobs(alice: APIClient, sample: SampleData, failed: list[Job]) -> None:
    make_job(owner=sample.alice, group=sample.users, status=JobStatus.DONE, job_name="scan-9")
    answer = retry(alice, filter={"job_name": "scan-*", "status": "Failed"}, changes={"cpu_time_s": 600})
    assert answer["retried"] == ids(failed)
    assert retry(alice, 400, filter={}, changes={"cpu_time_s": 600})["code"] == "empty_filter"


def test_a_file_takes_the_place_of_the_one_of_its_name(alice: APIClient, sample: SampleData) -> None:
    def upload(content: bytes, name: str) -> str:
        named = sandboxes.upload(BytesIO(content), file_name=name, owner=sample.alice, now=current_time())
        return sandboxes.reference_of(named.sandbox)

    wrong, data, right = upload(b"exit 1", "run.sh"), upload(b"1 2", "data.txt"), upload(b"exit 0", "run.sh")
    body = {"executable": "run.sh", "input_sandbox": [wrong, data]}
    (job,) = alice.post("/api/v1/jobs/", body, format="json").json()["jobs"]
    alice.post(f"/api/v1/jobs/{job['id']}/kill/", format="json")
    (new,) = retry(alice, ids=[job["id"]], files={"run.sh": right})["jobs"]
    assert Job.objects.with_description().get(pk=new["id"]).description["input_sandbox"] == [data, right]


def test_a_job_is_retried_once_and_then_its_successor_is(alice: APIClient, failed: list[Job]) -> None:
    first, *_ = failed
    (new,) = retry(alice, ids=[first.pk], changes={"memory_mb": 4000})["jobs"]
    again = retry(alice, 409, ids=[first.pk], changes={"memory_mb": 5000})
    assert again["code"] == "nothing_to_retry"
    assert f"as job {new['id']}" in again["detail"]
    some = retry(alice, ids=ids(failed), changes={"memory_mb": 5000})
    assert some["refused"] == [{"id": first.pk, "code": "already_retried"}]
    alice.post(f"/api/v1/jobs/{new['id']}/kill/", format="json")
    assert retry(alice, ids=[new["id"]], changes={"memory_mb": 5000})["retried"] == [new["id"]]
    assert alice.get(f"/api/v1/jobs/{first.pk}/").json()["retried_as"] == new["id"]
    assert alice.get(f"/api/v1/jobs/{new['id']}/").json()["retry_of"] == first.pk


def test_a_repeated_request_gets_the_first_answer(alice: APIClient, failed: list[Job]) -> None:
    body: dict[str, Any] = {"ids": ids(failed), "changes": {"memory_mb": 4000}, "request_id": str(uuid4())}
    first, second = retry(alice, **body), retry(alice, **body)
    assert (first["job_group_id"], first["jobs"]) == (second["job_group_id"], second["jobs"])
    assert JobRetry.objects.count() == len(failed)
    other = retry(alice, 409, **{**body, "changes": {"memory_mb": 1}})
    assert other["code"] == "request_id_conflict"


def test_only_the_owner_retries_with_changes(client_of: Clients, sample: SampleData) -> None:
    job = make_job(owner=sample.alice, group=sample.prod, status=JobStatus.FAILED)
    running = make_job(owner=sample.alice, group=sample.prod, status=JobStatus.RUNNING)
    for user, code in ((sample.bob, "not yours"), (sample.mallory, "not yours"), (sample.charlie, "There is no job")):
        answer = retry(client_of(user), 409, ids=[job.pk], changes={"executable": "/bin/rm"})
        assert (answer["code"], code in answer["detail"]) == ("nothing_to_retry", True)
    assert "Running" in retry(client_of(sample.alice), 409, ids=[running.pk], changes={"cpu_time_s": 9})["detail"]
    assert not JobRetry.objects.exists()
    assert Submission.objects.filter(jobs__isnull=True).count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "changes"),
        ({"changes": {}}, "changes"),
        ({"changes": {"memory_mb": "much"}}, "changes.memory_mb"),
        ({"changes": {"memory": 4000}}, "changes.memory"),
        ({"changes": {"parameters": {"count": 2}}}, "changes"),
        ({"changes": {"jdl": "Executable = x;"}}, "changes"),
        ({"changes": {"sites": ["LCG.NoSuch.org"]}}, "changes.sites"),
        ({"files": {"run.sh": "sha256:00"}}, "changes.input_sandbox"),
    ],
)
def test_wrong_changes_are_refused_with_their_field_and_nothing_is_submitted(
    alice: APIClient, failed: list[Job], body: dict[str, object], field: str
) -> None:
    answer = retry(alice, 400, ids=ids(failed), **body)
    assert field in answer["errors"], answer
    assert not JobRetry.objects.exists()


def test_jobs_of_several_groups_are_retried_one_group_at_a_time(
    alice: APIClient, sample: SampleData, failed: list[Job]
) -> None:
    other = make_group(vo=sample.vo)
    job = make_job(owner=sample.alice, group=other, status=JobStatus.FAILED)
    assert "several groups" in retry(alice, 400, ids=[*ids(failed), job.pk], changes={"memory_mb": 4000})["detail"]
