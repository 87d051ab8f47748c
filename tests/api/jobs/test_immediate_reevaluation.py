"""Jobs that wait for files are evaluated as soon as their files are registered, and only those jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.signals import before_task_publish
from django.core.management import call_command
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.jobs.tasks import reevaluate_input_data

ClientOf = Callable[[User], APIClient]


@pytest.fixture
def sent() -> Iterator[list[str]]:
    """Return the names of the tasks that were sent to the broker."""
    names: list[str] = []

    def note(sender: str, **_: object) -> None:
        names.append(sender)

    before_task_publish.connect(note)
    yield names
    before_task_publish.disconnect(note)


@pytest.fixture
def job(sample: SampleData, client_of: ClientOf) -> Job:
    """Return a job that reads two files without a common site."""
    near = factories.make_storage_element(name="near", sites=[sample.cern])
    far = factories.make_storage_element(name="far", sites=[sample.ral])
    for lfn, element in (("/lhcb/a", near), ("/lhcb/b", far)):
        factories.make_replica(lfn, vo=sample.vo, storage_element=element)
    body = {"executable": "x", "input_data": ["/lhcb/a", "/lhcb/b"]}
    answer = client_of(sample.alice).post("/api/v1/jobs/", body, format="json").json()
    assert answer["jobs"][0]["status"] == "Checking"
    return Job.objects.get(pk=answer["jobs"][0]["id"])


@pytest.mark.parametrize(
    ("address", "lfn", "element", "expected"),
    [
        ("/api/v1/replicas/", "/lhcb/b", "near", ["jobs.reevaluate_input_data"]),
        ("/api/v1/replicas/", "/lhcb/other", "near", []),
        ("/api/v1/replicas/", "/lhcb/a", "near", []),  # is known
        ("/api/v1/replicas/remove/", "/lhcb/a", "near", ["jobs.reevaluate_input_data"]),
        ("/api/v1/replicas/remove/", "/lhcb/b", "near", []),  # was not there
        ("/api/v1/replicas/", "/lhcb/b", "nowhere", []),  # refused
    ],
)
def test_only_files_that_jobs_wait_for_are_evaluated_at_once(
    sample: SampleData,
    client_of: ClientOf,
    job: Job,
    sent: list[str],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    address: str,
    lfn: str,
    element: str,
    expected: list[str],
) -> None:
    body: dict[str, Any] = {"replicas": [{"lfn": lfn, "storage_element": element}]}
    with django_capture_on_commit_callbacks(execute=True):
        client_of(sample.mallory).post(address, body, format="json")
    assert sent == expected


def test_the_task_moves_the_waiting_job(sample: SampleData, client_of: ClientOf, job: Job) -> None:
    body = {"replicas": [{"lfn": "/lhcb/b", "storage_element": "near"}]}
    assert client_of(sample.mallory).post("/api/v1/replicas/", body, format="json").status_code == 201
    reevaluate_input_data()
    told = client_of(sample.alice).get(f"/api/v1/jobs/{job.pk}/").json()
    assert (told["status"], told["minor_status"]) == ("Waiting", "")
    assert told["task_queue"] is not None


def test_loading_replicas_evaluates_waiting_jobs_at_once(
    sample: SampleData,
    job: Job,
    sent: list[str],
    tmp_path: Path,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    file = tmp_path / "replicas.csv"
    file.write_text("/lhcb/b,near\n")
    for expected in (["jobs.reevaluate_input_data"], ["jobs.reevaluate_input_data"]):
        with django_capture_on_commit_callbacks(execute=True):
            call_command("load_replicas", str(file))
        assert sent == expected  # the second time nothing is new
