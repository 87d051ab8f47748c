"""Requirements of jobs in JSON, JDL and CFG: refusals with their sentences, and stored values (RFC7)."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from resources.domain.enums import RequirementKind
from taskqueues.models import SubmitPool
from tests import factories
from tests.api.jobs.conftest import SampleData
from tests.cases import quick_cases

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def described(sample: SampleData) -> None:
    """Define Memory as a capacity of the VO, SoftwareTag with values of resources, and names for other VOs."""
    factories.make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY, unit="MB")
    factories.make_requirement_definition(name="Theirs", kind=RequirementKind.SET, vos=[factories.make_vo()])
    ce = factories.make_ce(site=sample.cern, parameters={"SoftwareTag": ["v1", "v2"], "Memory": 4000})
    factories.make_queue(ce=ce, name="big")


def jdl(requirements: str) -> dict[str, object]:
    return {"jdl": f'Executable = "a"; Requirements = {requirements};'}


def cfg(lines: str) -> dict[str, object]:
    return {"cfg": f"Executable = a\nRequirements\n{{\n{lines}\n}}"}


UNKNOWN = 'The requirement "SoftwareTga" is described by no resource of your VO. Did you mean "SoftwareTag"?'


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    quick_cases(
        [
            ({"executable": "a", "requirements": {"SoftwareTga": "v1"}}, "requirements.SoftwareTga", UNKNOWN),
            (jdl('[ SoftwareTga = "v1" ]'), "requirements.SoftwareTga", UNKNOWN),
            (cfg("SoftwareTga = v1"), "requirements.SoftwareTga", UNKNOWN),
            (
                {"jobs": [{"executable": "a"}, {"executable": "a", "requirements": {"SoftwareTga": "v1"}}]},
                "jobs.1.requirements.SoftwareTga",
                UNKNOWN,
            ),
            (
                {
                    "executable": "a",
                    "arguments": "%s",
                    "requirements": {"SoftwareTga": 1},
                    "parameters": {"values": [1, 2]},
                },
                "requirements.SoftwareTga",
                UNKNOWN,
            ),
            (
                cfg("Theirs = 1"),
                "requirements.Theirs",
                'The requirement "Theirs" is described by no resource of your VO.',
            ),
            (
                cfg("MEMORY = much"),
                "requirements.MEMORY",
                'The requirement "MEMORY" is a capacity in MB; give a number.',
            ),
            (
                jdl("[ memory = true ]"),
                "requirements.memory",
                'The requirement "memory" is a capacity in MB; give a number.',
            ),
            (jdl('[ Memory = "4000" ]'), "requirements.Memory", "is a capacity in MB; give a number."),
            (jdl("[ Memory = {} ]"), "requirements", 'The requirement "Memory" must be a list of 1 to 1000 values'),
            (jdl("[ Memory = [ Least = 1 ] ]"), "requirements", 'The requirement "Memory" must be'),
            ({"executable": "a", "requirements": {"Memory": None}}, "requirements", 'The requirement "Memory" must be'),
            (
                {"executable": "a", "requirements": {"Memory": 1, "MEMORY": 2}},
                "requirements",
                "differ only in letter case",
            ),
            ({"executable": "a", "requirements": {"Memory": 1, " memory": 2}}, "requirements.Memory", "is given twice"),
            (
                {"executable": "a", "requirements": {f"n{n}": 1 for n in range(101)}},
                "requirements",
                "at most 100 names",
            ),
            ({"executable": "a", "requirements": "Memory >= 4000"}, "requirements", "expressions are not accepted"),
        ],
        quick=6,
    ),
)
def test_refused_requirements_are_named_in_the_user_spelling(
    body: dict[str, object], field: str, detail: str, alice: APIClient, everything: Callable[[], object]
) -> None:
    before = everything()
    answer = alice.post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 400, answer.json()
    assert list(answer.json()["errors"]) == [field]
    assert detail in answer.json()["detail"]
    assert everything() == before


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        (jdl("Memory >= 4000"), "invalid_jdl", "an expression is not accepted"),
        (jdl('other.Site == "LCG.CERN.ch"'), "invalid_jdl", "an expression is not accepted"),
        (jdl("[ Memory = 1; memory = 2 ]"), "invalid_jdl", "Line 1"),
        (cfg("Memory >= 4000"), "invalid_cfg", "an expression is not accepted"),
        (cfg("Memory = 1\nmemory = 2"), "invalid_cfg", "Line 5, column 1"),
        (cfg("Memory = 4000;"), "invalid_cfg", "remove the `;`"),
        ({"cfg": "Executable = a;"}, "invalid_cfg", "Line 1, column 15"),
        ({"cfg": "Executable = a\nRequirements = Memory > 4000"}, "invalid_cfg", "an expression is not accepted"),
    ],
)
def test_a_syntax_error_is_refused_with_its_position(
    body: dict[str, object], code: str, detail: str, alice: APIClient
) -> None:
    answer = alice.post("/api/v1/jobs/", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ({"executable": "a", "requirements": {"memory": 4000.5}}, "memory = 4000.5 MB"),
        (jdl('[ SoftwareTag = { "v3", "v4" }; Memory = 1 ]'), "Memory = 1 MB and SoftwareTag = v3 or v4"),
        (cfg("SoftwareTag = 1"), "SoftwareTag = 1"),
        (cfg('SoftwareTag = "1"'), 'SoftwareTag = "1"'),
        ({"jobs": [{"executable": "a", "requirements": {"Memory": [9000]}}] * 3}, "Memory = 9000 MB"),
    ],
)
def test_a_job_that_no_queue_fits_waits_with_a_warning(body: dict[str, object], warning: str, alice: APIClient) -> None:
    answer = alice.post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 201, answer.json()
    assert answer.json()["warnings"] == [
        f"It waits because no queue that serves lhcb provides what it requires: {warning}."
    ]
    assert {job["status"] for job in answer.json()["jobs"]} == {"Waiting"}
    said = alice.get(f"/api/v1/jobs/{answer.json()['jobs'][0]['id']}/explain/").json()
    assert f"what it requires: {warning}." in said["summary"]


def test_equal_requirements_in_three_formats_share_a_task_queue(alice: APIClient) -> None:
    bodies = [
        {"executable": "a", "requirements": {"softwaretag": ["v2", "v1", "v2"], "MEMORY": 4e3}},
        jdl('[ Memory = 2 * 2000; SoftwareTag = { "v1", "v2" } ]'),
        cfg("SoftwareTag = v1\nSoftwareTag += v2\nMemory = 4000.0"),
    ]
    answers = [alice.post("/api/v1/jobs/", body, format="json").json() for body in bodies]
    assert [answer["warnings"] for answer in answers] == [[], [], []]
    assert len({answer["jobs"][0]["task_queue"] for answer in answers}) == 1
    assert [queue.name for queue in SubmitPool.objects.get().queues.all()] == ["big"]
