"""Bad input is refused with one clear error, and stores nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests import factories
from tests.api.jobs.conftest import SampleData
from tests.problems import of_problem
from wms.jobs.domain.lifecycle import JobStatus

JOBS = "/api/v1/jobs/"
UNKNOWN_SANDBOX = "sha256:" + "0" * 64


#: Body of a submission, the field that its error names, and a word of the sentence.
WRONG_SUBMISSIONS: list[tuple[Mapping[str, Any], str, str]] = [
    ({}, "executable", "required"),
    ({"executable": 5}, "executable", "string"),
    ({"executable": "a", "cpu_time_s": -1}, "cpu_time_s", "from 1"),
    ({"executable": "a", "cpu_time_s": "long"}, "cpu_time_s", "whole number"),
    ({"executable": "a", "priority": 11}, "priority", "10"),
    ({"executable": "a", "exectable": "b"}, "exectable", "executable"),
    ({"executable": "a", "sites": ["LCG.CERN.hc"]}, "sites", "LCG.CERN.ch"),
    ({"executable": "a", "banned_sites": ["LCG.RAL"]}, "banned_sites", "LCG.RAL.uk"),
    ({"executable": "a", "sites": ["LCG.CERN.ch"], "banned_sites": ["LCG.CERN.ch"]}, "sites", "none is left"),
    ({"executable": "a", "grid_ces": ["ce1.cern.ch"]}, "grid_ces", "ce01.cern.ch"),
    ({"executable": "a", "platforms": ["x86_64-el8"]}, "platforms", "x86_64-el9"),
    ({"executable": "a", "setup": "LHCb-Production2"}, "setup", "LHCb-Production"),
    ({"executable": "a", "requirements": {"Softwaer": "v1"}}, "requirements.Softwaer", "resource"),
    ({"executable": "a", "requirements": "Memory > 1"}, "requirements", "expressions"),
    ({"executable": "a", "requirements": {"a": 1}, "submit_pools": ["p"]}, "requirements", "both"),
    ({"executable": "a", "input_sandbox": [UNKNOWN_SANDBOX]}, "input_sandbox", "Upload"),
    ({"executable": "a", "input_sandbox": ["file.txt"]}, "input_sandbox", "sha256"),
    ({"executable": "a", "parameters": {"count": 10_001}}, "parameters", "10000"),
    ({"executable": "a", "group": "lhcb_prdo"}, "group", "lhcb_prod"),
    ({"executable": "a", "group": 5}, "group", "name of a group"),
    ({"executable": "a", "request_id": "5"}, "request_id", "UUID"),
    ({"executable": "a", "request_id": 5}, "request_id", "UUID"),
    ({"jdl": 5}, "jdl", "string"),
    ({"jdl": "[ Executable = a; CPUTime = 5 6; ]"}, "jdl", "Line 1, column 31"),
    ({"jdl": "[ Executable = ; ]"}, "executable", "is required"),
    ({"jdl": 'Executable = "a"; CPUTme = 5;'}, "jdl", "CPUTime"),
    ({"jdl": 'Executable = "a"; Site = "LCG.CERN.hc";'}, "sites", "LCG.CERN.ch"),
    ({"jdl": 'Executable = "a";', "executable": "b"}, "executable", "combined with jdl"),
    ({"jdl": 'Executable = "a"; OwnerGroup = "lhcb_user";', "group": "lhcb_prod"}, "group", "one group"),
    ({"cfg": 5}, "cfg", "string"),
    (
        {"cfg": "Executable = a\nCPUTme = 5"},
        "cfg",
        "Line 2, column 1: There is no attribute `CPUTme`.",
    ),
    ({"cfg": "Executable = a\nSite = LCG.CERN.hc"}, "sites", "LCG.CERN.ch"),
    ({"cfg": "Executable = a", "executable": "b"}, "executable", "combined with cfg"),
    ({"cfg": "Executable = a", "jdl": 'Executable = "b";'}, "cfg", "combined with jdl"),
    ({"jobs": [{"cfg": "Executable = a"}, {"cfg": "}"}]}, "jobs.1.cfg", "Line 1"),
    ({"jobs": []}, "jobs", "1 to 10000"),
    ({"jobs": {"executable": "a"}}, "jobs", "list"),
    ({"jobs": [{"executable": "a"}], "executable": "a"}, "executable", "combined with jobs"),
    ({"jobs": [{"executable": "a"}], "grop": "a"}, "grop", "group"),
    ({"jobs": [{"executable": "a"}, "b"]}, "jobs.1.description", "object"),
    ({"jobs": [{"executable": "a"}, {}]}, "jobs.1.executable", "required"),
    ({"jobs": [{"executable": "a"}, {"jdl": "["}]}, "jobs.1.jdl", "Line 1"),
    ({"jobs": [{"executable": "a"}, {"executable": "b", "sites": ["X"]}]}, "jobs.1.sites", '"X"'),
    ({"jobs": [{"executable": "a"}, {"executable": "b", "setup": "X"}]}, "jobs.1.setup", '"X"'),
    ({"jobs": [{"executable": "a"}] * 10_001}, "jobs", "10000"),
    ({"jobs": [{"executable": "a", "parameters": {"count": 6000}}] * 2}, "jobs", "10000"),
    (
        {"jobs": [{"jdl": f'Executable = "a"; OwnerGroup = "lhcb_{name}";'} for name in ("user", "prod")]},
        "group",
        "one group",
    ),
]


def test_a_wrong_submission_is_one_clear_error(
    alice: APIClient, everything: Callable[[], object], subtests: pytest.Subtests
) -> None:
    for body, field, word in WRONG_SUBMISSIONS:
        with subtests.test(f"{body}"[:200]):
            before = everything()
            response = alice.post(JOBS, body, format="json")

            assert response.status_code == 400
            answer = response.json()
            assert of_problem(answer)[0] == 400
            assert field in answer["errors"], answer
            assert word in " ".join(answer["errors"][field]), answer
            assert everything() == before


@pytest.mark.parametrize("body", ["[]", "5", "null", '"text"', "{", "\xff", '{"executable": NaN}', "[" * 1000])
def test_a_body_that_is_not_an_object_is_one_clear_error(
    alice: APIClient, everything: Callable[[], object], body: str
) -> None:
    before = everything()
    response = alice.post(JOBS, body.encode("latin-1"), content_type="application/json")

    assert response.status_code == 400
    assert response.json()["detail"]
    assert everything() == before


def test_every_wrong_job_of_a_list_is_named(alice: APIClient) -> None:
    jobs = [{"executable": "a", "priority": 11}, {"executable": "b"}, {"executable": "c", "processors": 0}]
    errors = alice.post(JOBS, {"jobs": jobs}, format="json").json()["errors"]

    assert set(errors) == {"jobs.0.priority", "jobs.2.processors"}


def test_of_ten_thousand_wrong_jobs_a_hundred_are_named(alice: APIClient) -> None:
    body = {"jobs": [{"executable": "a", "sites": [f"NO.{number}"]} for number in range(2000)]}

    assert len(alice.post(JOBS, body, format="json").json()["errors"]) == 100


@pytest.mark.parametrize(
    ("query", "field", "word"),
    [
        ("status=Wating", "status", "Waiting"),
        ("status=Waiting,Runing", "status", "Running"),
        ("stats=Waiting", "stats", "status"),
        ("owner=a&owner=b", "owner", "once"),
        ("submitted_after=2026-01-01T00:00:00", "submitted_after", "zone"),
        ("submitted_after=yesterday", "submitted_after", "zone"),
        ("submitted_before=2026-13-01T00:00:00Z", "submitted_before", "zone"),
        ("submitted_before=0001-01-01T00:00:00%2B14:00", "submitted_before", "zone"),
        ("job_group_id=5", "job_group_id", "UUID"),
        ("page_size=1001", "page_size", "1000"),
        ("page_size=0", "page_size", "1"),
        ("ordering=name", "ordering", "-id"),
        ("cursor=x", "cursor", "first page"),
        ("site=", "site", "blank"),
    ],
)
def test_a_wrong_filter_is_one_clear_error(alice: APIClient, query: str, field: str, word: str) -> None:
    response = alice.get(f"{JOBS}?{query}")

    assert response.status_code == 400
    assert word in " ".join(response.json()["errors"][field])


@pytest.mark.parametrize("zone", ["Z", "-15:59", "%2B16:00", "-23:59", "%2B23:59"])
def test_a_time_may_be_in_any_zone(alice: APIClient, zone: str) -> None:
    assert alice.get(f"{JOBS}?submitted_after=2026-06-01T12:00:00{zone}").status_code == 200
    assert alice.get(f"{JOBS}summary/?submitted_before=2026-06-01T12:00:00{zone}").status_code == 200


def test_an_unsupported_group_by_is_named(alice: APIClient) -> None:
    response = alice.get(f"{JOBS}summary/?group_by=status,sites")

    assert response.status_code == 400
    assert '"site"' in response.json()["errors"]["group_by"][0]


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        ({}, "action", "required"),
        ({"action": "kil", "ids": [1]}, "action", "kill"),
        ({"action": "kill"}, "ids", "one of the two"),
        ({"action": "kill", "ids": [1], "filter": {"owner": "a"}}, "ids", "one of the two"),
        ({"action": "kill", "ids": []}, "ids", "empty"),
        ({"action": "kill", "ids": ["1"]}, "ids.0", "integer"),
        ({"action": "kill", "ids": 1}, "ids", "list"),
        ({"action": "kill", "filter": {}}, "filter", "criterion"),
        ({"action": "kill", "filter": {"ownr": "a"}}, "filter.ownr", "owner"),
        ({"action": "kill", "filter": {"status": ["Wating"]}}, "filter.status", "Waiting"),
        ({"action": "kill", "filter": {"owner": "alice", "status": []}}, "filter.status", "blank"),
        ({"action": "kill", "filter": {"owner": "alice", "site": None}}, "filter.site", "null"),
        ({"action": "kill", "filter": {"owner": "alice", "site": " "}}, "filter.site", "blank"),
        ({"action": "kill", "filter": {"owner": "alice", "site": ["LCG.CERN.ch"]}}, "filter.site", "string"),
        ({"action": "kill", "filter": {"owner": "alice", "job_group_id": {}}}, "filter.job_group_id", "blank"),
        ({"action": "kill", "filter": {"owner": "alice", "submitted_after": 5}}, "filter.submitted_after", "zone"),
        ({"action": "kill", "filter": None}, "filter", "null"),
        ({"action": "kill", "filter": []}, "filter", "object"),
        ({"action": "kill", "ids": [1], "reason": "x"}, "reason", "hold"),
    ],
)
def test_a_wrong_bulk_action_is_one_clear_error(
    alice: APIClient,
    sample: SampleData,
    everything: Callable[[], object],
    body: Mapping[str, Any],
    field: str,
    word: str,
) -> None:
    factories.make_job(owner=sample.alice, group=sample.users)
    before = everything()
    response = alice.post(f"{JOBS}bulk/", body, format="json")

    assert response.status_code == 400
    answer = response.json()
    assert field in answer["errors"], answer
    assert word in " ".join(answer["errors"][field]), answer
    assert everything() == before


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        ({}, "body", "priority"),
        ({"priority": 11}, "priority", "10"),
        ({"priority": None}, "priority", "null"),
        ({"sites": ["LCG.CERN.hc"]}, "sites", "LCG.CERN.ch"),
        ({"sites": "LCG.CERN.ch"}, "sites", "list"),
        ({"sites": ["LCG.RAL.uk"]}, "sites", "none is left"),
        ({"job_nam": "x"}, "job_nam", "job_name"),
        ({"executable": "x"}, "executable", "anew"),
    ],
)
def test_a_wrong_change_is_one_clear_error(
    alice: APIClient,
    sample: SampleData,
    everything: Callable[[], object],
    body: Mapping[str, Any],
    field: str,
    word: str,
) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, banned_sites=["LCG.RAL.uk"])
    before = everything()
    response = alice.patch(f"{JOBS}{job.pk}/", body, format="json")

    assert response.status_code == 400
    assert word in " ".join(response.json()["errors"][field])
    assert everything() == before


@pytest.mark.parametrize("body", [[], 5, "text"])
def test_an_edit_that_is_not_an_object_is_refused(alice: APIClient, sample: SampleData, body: object) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users)

    assert alice.patch(f"{JOBS}{job.pk}/", body, format="json").status_code == 400


def test_a_reason_is_one_line_and_only_for_holding(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users)
    for path, body in (("hold", {"reason": "x" * 256}), ("hold", {"raison": "x"}), ("kill", {"reason": "x"})):
        assert alice.post(f"{JOBS}{job.pk}/{path}/", body, format="json").status_code == 400
    job.refresh_from_db()
    assert job.status == JobStatus.WAITING


def test_ids_beyond_the_database_are_not_found(alice: APIClient) -> None:
    huge = 10**25
    assert alice.get(f"{JOBS}{huge}/").status_code == 404
    assert alice.post(f"{JOBS}{huge}/kill/").status_code == 404
    response = alice.post(f"{JOBS}bulk/", {"action": "kill", "ids": [2**63 - 1, -1]}, format="json")
    assert response.json() == {
        "done": 0,
        "refused": [{"id": -1, "code": "not_found"}, {"id": 2**63 - 1, "code": "not_found"}],
    }
