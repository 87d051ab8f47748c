"""Submissions of jobs whose output data have logical names, each of which is written once (ADR 72)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from rest_framework.test import APIClient

from resources.models import OutputName
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

NAME = "/lhcb/user/a/alice/r.txt"
Submit = Callable[..., Any]


@pytest.fixture
def submit(alice: APIClient) -> Submit:
    """Return a function that submits jobs of Alice with the same program."""

    def submit(*described: Mapping[str, Any], path: str = "jobs/") -> Any:
        jobs = [{"executable": "/bin/true", **each} for each in described]
        return alice.post(f"/api/v1/{path}", {"jobs": jobs} if len(jobs) > 1 else jobs[0], format="json")

    return submit


def refusal(answer: Any) -> str:
    assert answer.status_code == 400, answer.content
    sentences = answer.json()["errors"]
    assert all(field.endswith("output_data") for field in sentences), sentences
    (sentence,) = sentences.popitem()[1]
    assert not Job.objects.exists()
    return str(sentence)


WRITES = {"output_data": [f"LFN:{NAME}"]}
BELOW = {"output_data": ["r.txt"], "output_path": "/lhcb/user/a/alice"}


@pytest.mark.parametrize("described", [WRITES, BELOW])
def test_jobs_of_one_request_that_write_one_name_are_refused(submit: Submit, described: Mapping[str, Any]) -> None:
    sentence = refusal(submit(described, WRITES))
    assert sentence == (
        f"2 of these jobs would write LFN:{NAME}, and a name is written once; give each job its own name, or put "
        "%j into it."
    )


def test_a_relative_directory_is_below_the_home_of_the_owner(submit: Submit) -> None:
    sentence = refusal(submit({**BELOW, "output_path": "x"}, {"output_data": ["LFN:/lhcb/user/a/alice/x/r.txt"]}))
    assert sentence.startswith("2 of these jobs would write LFN:/lhcb/user/a/alice/x/r.txt")


@pytest.mark.parametrize("described", [WRITES, BELOW])
def test_parametric_jobs_that_write_one_name_are_refused(submit: Submit, described: Mapping[str, Any]) -> None:
    sentence = refusal(submit({**described, "parameters": {"count": 3}}))
    assert sentence.startswith(f"3 of these jobs would write LFN:{NAME}")
    assert "put %n, %s or %j into it" in sentence


@pytest.mark.parametrize("directive", ["%n", "%s", "%j", "%%%n"])
def test_parametric_jobs_with_names_of_their_own_are_accepted(submit: Submit, directive: str) -> None:
    described = {"output_data": [f"LFN:/lhcb/user/a/alice/r_{directive}.txt"], "parameters": {"count": 3}}
    assert submit(described).status_code == 201
    assert OutputName.objects.count() == (0 if directive == "%j" else 3)


@pytest.mark.parametrize(
    "described",
    [
        {"output_data": ["r.txt"]},
        {"output_data": ["*.txt"], "output_path": "/lhcb/user/a/alice"},
        {},
    ],
)
def test_names_that_are_not_known_before_or_are_the_jobs_own_are_accepted(
    submit: Submit, described: Mapping[str, Any]
) -> None:
    assert submit(described, described).status_code == 201
    assert not OutputName.objects.exists()


def test_a_name_is_named_twice_by_one_job(submit: Submit) -> None:
    assert submit({"output_data": [f"LFN:{NAME}", f"LFN:{NAME}"]}).status_code == 201


@pytest.mark.parametrize("path", ["jobs/", "jobs/rehearsal/"])
def test_a_registered_name_is_refused(submit: Submit, sample: SampleData, path: str) -> None:
    element = factories.make_storage_element(vos=[sample.vo])
    factories.make_replica(NAME, vo=sample.vo, storage_element=element)
    sentence = refusal(submit(WRITES, path=path))
    assert sentence == (
        f"LFN:{NAME} is registered already; choose another name, remove the file (wms files rm), or set overwrite."
    )


def test_the_input_of_a_job_is_a_registered_name(submit: Submit, sample: SampleData) -> None:
    factories.make_replica(NAME, vo=sample.vo, storage_element=factories.make_storage_element(vos=[sample.vo]))
    assert "is registered already" in refusal(submit({**WRITES, "input_data": [NAME]}))


def test_a_file_of_the_owner_may_be_overwritten_with_a_warning(submit: Submit, sample: SampleData) -> None:
    factories.make_replica(NAME, vo=sample.vo, storage_element=factories.make_storage_element(vos=[sample.vo]))
    OutputName.objects.create(vo=sample.vo, lfn=NAME, writer_id=12, owner=sample.alice)
    assert "by job 12; choose" in refusal(submit(WRITES))
    answer = submit({**WRITES, "overwrite": True})
    assert answer.status_code == 201
    assert f"LFN:{NAME} is registered already, by job 12; the job will overwrite it." in answer.json()["warnings"]


def test_a_file_of_somebody_else_is_not_overwritten(submit: Submit, sample: SampleData) -> None:
    factories.make_replica(NAME, vo=sample.vo, storage_element=factories.make_storage_element(vos=[sample.vo]))
    OutputName.objects.create(vo=sample.vo, lfn=NAME, writer_id=12, owner=factories.make_user())
    sentence = refusal(submit({**WRITES, "overwrite": True}))
    assert "not yours" in sentence
    assert "12" not in sentence


def test_a_name_that_another_job_will_write_is_a_warning(submit: Submit) -> None:
    (first,) = submit(WRITES).json()["jobs"]
    (warning,) = [each for each in submit(WRITES).json()["warnings"] if NAME in each]
    assert warning.startswith(f"Job {first['id']}, which has not ended, writes LFN:{NAME} too")
    Job.objects.update(status=JobStatus.KILLED, ended_at=factories.NOW)
    assert not [each for each in submit(WRITES).json()["warnings"] if NAME in each]
