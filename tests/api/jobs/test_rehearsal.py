"""POST /api/v1/jobs/rehearsal/: what a submission would be answered."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData

ADDRESS = "/api/v1/jobs/rehearsal/"
FILE = "sha256:" + "a" * 64


def test_a_rehearsal_lists_fitting_queues_and_stores_nothing(
    sample: SampleData, alice: APIClient, everything: Callable[[], object]
) -> None:
    before = everything()
    body = {"executable": "run", "job_name": "j%n", "parameters": {"values": ["1", "2"]}, "tags": ["gpu"]}
    answer = alice.post(ADDRESS, body, format="json").json()
    assert (answer["jobs"], answer["warnings"], answer["uncompared"]) == (2, [], 0)
    (kind,) = answer["kinds"]
    assert (kind["jobs"], kind["first"]) == (2, 0)
    assert kind["fit"] == {
        "queues": 1,
        "fitting": 1,
        "closed": 0,
        "sites": ["LCG.CERN.ch"],
        "exclusions": [],
        "never": "",
    }
    assert everything() == before


def test_a_rehearsal_names_the_conditions_that_exclude_queues(sample: SampleData, alice: APIClient) -> None:
    jobs = [{"executable": "run"}, {"executable": "run.sh", "processors": 64}]
    answer = alice.post(ADDRESS, {"jobs": jobs}, format="json").json()
    fits = {kind["first"]: kind["fit"] for kind in answer["kinds"]}
    assert fits[0]["fitting"] == 1
    assert fits[1]["fitting"] == 0
    assert [(each["condition"], each["queues"]) for each in fits[1]["exclusions"]] == [("processors", 1)]


def test_files_that_come_with_the_submission_need_not_be_uploaded(sample: SampleData, alice: APIClient) -> None:
    body = {"executable": "run.sh", "input_sandbox": [FILE]}
    refused = alice.post(ADDRESS, body, format="json")
    assert refused.status_code == 400
    assert FILE[:12] in str(refused.json()["errors"])
    assert alice.post(ADDRESS, {**body, "coming_files": {FILE: "run.sh"}}, format="json").status_code == 200


@pytest.mark.parametrize(
    "coming", [[], {"x": "run.sh"}, {FILE: 1}, {FILE: "../run.sh"}, {FILE[:-1]: "run.sh"}, {FILE + "a": "run.sh"}]
)
def test_wrong_coming_files_are_refused(alice: APIClient, coming: object) -> None:
    answer = alice.post(ADDRESS, {"executable": "run", "coming_files": coming}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["coming_files"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"executable": "run", "memroy_mb": 1},
        {"executable": "run", "sites": ["Nowhere"]},
        {"jdl": "Executable = ;"},
        {"jobs": []},
        {"executable": "x", "group": "nobody's"},
    ],
)
def test_a_rehearsal_refuses_what_a_submission_refuses(alice: APIClient, body: object) -> None:
    rehearsed, submitted = (alice.post(address, body, format="json") for address in (ADDRESS, "/api/v1/jobs/"))
    assert rehearsed.status_code == submitted.status_code
    assert rehearsed.json().get("errors") == submitted.json().get("errors")
