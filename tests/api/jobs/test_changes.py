"""The stream of changes over REST: cursors, rights, and what is in a change."""

from collections.abc import Callable
from time import time
from typing import Any

import pytest
from django.core import signing
from pytest_django import Settings
from rest_framework.test import APIClient

from tests import factories
from tests.api.jobs.conftest import SampleData, make_sample
from tests.factories import NOW, submit
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.queries.changes import now
from wms.jobs.services import control

pytestmark = pytest.mark.django_db(transaction=True)

CHANGES = "/api/v1/jobs/changes/"


@pytest.fixture
def sample(transactional_db: None) -> SampleData:
    return make_sample()


def _submitted(owner: User) -> Job:
    result = submit(parse_submission({"executable": "a.sh"}), owner=owner, now=NOW)
    return Job.objects.get(submission=result.job_group_id)


def _read(client: APIClient, **query: str | int) -> dict[str, Any]:
    response = client.get(CHANGES, query)
    assert response.status_code == 200, response.json()
    answer: dict[str, Any] = response.json()
    return answer


def test_changes_after_the_cursor_have_the_fields_of_the_history(
    sample: SampleData, client_of: Callable[[User], APIClient]
) -> None:
    alice = client_of(sample.alice)
    job = _submitted(sample.alice)
    begin = _read(alice)
    assert begin["changes"] == []
    assert begin["more"] is False
    control.apply_to_one(Action.HOLD, job.pk, by=sample.alice, now=NOW)
    part = _read(alice, since=begin["cursor"])
    (change,) = part["changes"]
    assert change["job_id"] == job.pk
    assert (change["status"], change["source"]) == ("Held", "alice")
    assert change == {"job_id": job.pk, **alice.get(f"/api/v1/jobs/{job.pk}/history/").json()[-1]}
    assert _read(alice, since=part["cursor"])["changes"] == []
    # The same cursor gives the same changes.
    assert _read(alice, since=begin["cursor"])["changes"] == [change]


def test_pages_continue_without_loss_and_an_edit_is_a_change(
    sample: SampleData, client_of: Callable[[User], APIClient]
) -> None:
    alice = client_of(sample.alice)
    jobs = [_submitted(sample.alice) for _ in range(3)]
    cursor = _read(alice)["cursor"]
    for job in jobs:
        assert alice.patch(f"/api/v1/jobs/{job.pk}/", {"priority": 5}, format="json").status_code == 200
    told = []
    for more in (True, True, False):
        part = _read(alice, since=cursor, page_size=1)
        assert part["more"] is more
        told += [(change["job_id"], change["minor_status"]) for change in part["changes"]]
        cursor = part["cursor"]
    assert told == [(job.pk, "Edited: priority") for job in jobs]


def test_only_changes_of_visible_jobs_are_returned(sample: SampleData, client_of: Callable[[User], APIClient]) -> None:
    cursor = _read(client_of(sample.alice))["cursor"]
    job = _submitted(sample.alice)
    control.apply_to_one(Action.HOLD, job.pk, by=sample.alice, now=NOW)
    stranger, operator = factories.make_user(), factories.make_user(operator=True)
    assert _read(client_of(stranger), since=cursor)["changes"] == []
    assert job.pk in {change["job_id"] for change in _read(client_of(operator), since=cursor)["changes"]}


def test_a_cursor_that_is_too_old_or_of_another_database_is_gone(
    sample: SampleData, client_of: Callable[[User], APIClient], settings: Settings
) -> None:
    alice = client_of(sample.alice)
    cursor = _read(alice)["cursor"]
    settings.WMS_JOB_CHANGES_S = -1
    response = alice.get(CHANGES, {"since": cursor})
    assert (response.status_code, response.json()["code"]) == (410, "cursor_expired")
    assert "begin without a cursor" in response.json()["detail"]
    settings.WMS_JOB_CHANGES_S = 60
    assert alice.get(CHANGES, {"since": cursor}).status_code == 200
    until = now().end + 1000
    later = signing.dumps((f"{until}:{until}:", "", 0, int(time())), salt="wms.jobs.changes", compress=True)
    assert alice.get(CHANGES, {"since": later}).status_code == 410


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "nonsense"}, "since"),
        ({"sinse": "x"}, "sinse"),
        ({"page_size": 0}, "page_size"),
        ({"since": ""}, "since"),
    ],
)
def test_wrong_parameters_are_refused_at_their_field(
    sample: SampleData, client_of: Callable[[User], APIClient], query: dict[str, str | int], field: str
) -> None:
    response = client_of(sample.alice).get(CHANGES, query)
    assert response.status_code == 400
    assert field in response.json()["errors"]
