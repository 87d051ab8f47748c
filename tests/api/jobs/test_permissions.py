"""Rights at every endpoint of jobs, for every role."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

#: Who asks, about a job of Alice in a group that shares jobs or not → whether the job exists for them.
ROLES = [
    ("alice", False, True),
    ("alice", True, True),
    ("bob", True, True),
    ("bob", False, False),
    ("dora", False, False),
    ("dora", True, False),
    ("charlie", True, False),
    ("mallory", False, True),
    ("olga", False, True),
]
#: Verb, path below the job, body, status of the job, status of the answer for who may see it.
ENDPOINTS: list[tuple[str, str, object, JobStatus, int]] = [
    ("get", "", None, JobStatus.WAITING, 200),
    ("get", "", None, JobStatus.DELETED, 200),
    ("get", "history/", None, JobStatus.WAITING, 200),
    ("get", "explain/", None, JobStatus.WAITING, 200),
    ("get", "peek/", None, JobStatus.RUNNING, 200),
    ("patch", "", {"priority": 5}, JobStatus.WAITING, 200),
    ("patch", "", {"priority": 5}, JobStatus.RUNNING, 409),
    ("post", "kill/", None, JobStatus.WAITING, 200),
    ("post", "kill/", None, JobStatus.DONE, 409),
    ("post", "reschedule/", None, JobStatus.FAILED, 200),
    ("post", "reschedule/", None, JobStatus.WAITING, 409),
    ("post", "delete/", None, JobStatus.DONE, 200),
    ("post", "delete/", None, JobStatus.RUNNING, 409),
    ("post", "hold/", {"reason": "wait"}, JobStatus.WAITING, 200),
    ("post", "hold/", None, JobStatus.RUNNING, 409),
    ("post", "release/", None, JobStatus.HELD, 200),
    ("post", "release/", None, JobStatus.WAITING, 409),
]
Everything = Callable[[], object]
ClientOf = Callable[[User], APIClient]


def test_access_rights_to_a_job(
    sample: SampleData, client_of: ClientOf, everything: Everything, subtests: pytest.Subtests
) -> None:
    for (actor, shared, sees), (verb, path, body, status, answer) in product(ROLES, ENDPOINTS):
        with subtests.test(f"{actor}: {verb} {path} of a {status} job", shared=shared):
            job = factories.make_job(owner=sample.alice, group=sample.prod if shared else sample.users, status=status)
            expected = answer if sees else 404
            before = everything() if expected >= 400 else None
            send = getattr(client_of(getattr(sample, actor)), verb)
            response = send(f"/api/v1/jobs/{job.pk}/{path}", body, format="json")

            assert response.status_code == expected
            assert before is None or everything() == before
            if expected == 404:
                assert response.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("get", ""),
        ("post", ""),
        ("get", "summary/"),
        ("post", "bulk/"),
        *((verb, f"1/{path}") for verb, path, *_ in ENDPOINTS),
    ],
)
def test_an_anonymous_request_is_401(db: None, everything: Everything, verb: str, path: str) -> None:
    before = everything()
    response = getattr(APIClient(), verb)(f"/api/v1/jobs/{path}")

    assert response.status_code == 401
    assert everything() == before


@pytest.mark.parametrize(("actor", "shared", "sees"), ROLES)
def test_lists_summaries_and_bulk_actions_contain_visible_jobs_only(
    sample: SampleData, client_of: ClientOf, everything: Everything, actor: str, shared: bool, sees: bool
) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.prod if shared else sample.users)
    client = client_of(getattr(sample, actor))
    before = everything()

    found = client.get("/api/v1/jobs/").json()["results"]
    assert [row["id"] for row in found] == ([job.pk] if sees else [])
    assert client.get("/api/v1/jobs/summary/").json()["results"] == (
        [{"status": "Waiting", "count": 1}] if sees else []
    )
    by_filter: Any = {"action": "kill", "filter": {"owner": "alice"}}
    by_ids: Any = {"action": "kill", "ids": [job.pk]}
    if not sees:
        assert client.post("/api/v1/jobs/bulk/", by_filter, format="json").json() == {"done": 0, "refused": []}
        refused = client.post("/api/v1/jobs/bulk/", by_ids, format="json").json()
        assert refused == {"done": 0, "refused": [{"id": job.pk, "code": "not_found"}]}
        assert everything() == before
        return
    assert client.post("/api/v1/jobs/bulk/", by_ids, format="json").json() == {"done": 1, "refused": []}
    assert Job.objects.get().status == JobStatus.KILLED


def test_a_user_without_a_group_cannot_submit(client_of: ClientOf, sample: SampleData, everything: Everything) -> None:
    before = everything()
    response = client_of(sample.olga).post("/api/v1/jobs/", {"executable": "a"}, format="json")

    assert (response.status_code, response.json()["code"]) == (400, "group_needed")
    assert everything() == before


def test_an_owner_who_left_the_group_still_has_the_job(sample: SampleData, client_of: ClientOf) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.prod)
    sample.alice.memberships.all().delete()
    sample.bob.memberships.all().delete()

    assert client_of(sample.alice).get(f"/api/v1/jobs/{job.pk}/").status_code == 200
    assert client_of(sample.bob).get(f"/api/v1/jobs/{job.pk}/").status_code == 404
