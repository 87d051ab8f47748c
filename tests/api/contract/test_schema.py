"""The OpenAPI schema: it has every address of the contract, no warnings, and pages without foreign scripts."""

import json
import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
import yaml
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client

#: On which clients rely; docs/rest.md has all.
ADDRESSES = [
    "POST /api/auth/token/",
    "GET /api/auth/me/",
    "GET /api/auth/tokens/",
    "DELETE /api/auth/tokens/{id}/",
    "POST /api/jobs/",
    "GET /api/jobs/",
    "GET /api/jobs/summary/",
    "GET /api/jobs/{id}/",
    "GET /api/jobs/{id}/history/",
    "GET /api/jobs/{id}/explain/",
    "GET /api/jobs/{id}/output/",
    "GET /api/jobs/{id}/peek/",
    "POST /api/jobs/{id}/kill/",
    "POST /api/jobs/{id}/reschedule/",
    "POST /api/jobs/{id}/delete/",
    "POST /api/jobs/{id}/hold/",
    "POST /api/jobs/{id}/release/",
    "PATCH /api/jobs/{id}/",
    "POST /api/jobs/bulk/",
    "POST /api/sandboxes/",
    "GET /api/task-queues/",
    "GET /api/groups/",
    "GET /api/groups/{name}/shares/",
    "GET /api/sites/",
    "POST /api/sites/{name}/advertisements/",
    "GET /api/replicas/",
    "POST /api/replicas/",
    "POST /api/replicas/remove/",
    "POST /api/matches/{match_id}/replicas/",
    "GET /api/gateway/wms_advertise.py",
    "GET /api/pilots/config/",
    "GET /api/pilots/agent.pyz",
    "GET /api/pilots/pilot.sh",
    "POST /api/pilots/register/",
    "POST /api/pilots/report/",
    "POST /api/matches/",
    "POST /api/matches/{match_id}/status/",
    "POST /api/matches/{match_id}/heartbeat/",
    "POST /api/matches/{match_id}/finish/",
    "POST /api/matches/preview/",
    "GET /api/submit-pools/",
    "GET /api/submit-pools/eligible/",
    "GET /api/pilots/summary/",
]

Operation = Mapping[str, Any]


@pytest.fixture(scope="module")
def schema() -> Mapping[str, Any]:
    """Return the schema; a warning of its generator fails the test."""
    written = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=written)
    made: Mapping[str, Any] = yaml.safe_load(written.getvalue())
    return made


@pytest.fixture(scope="module")
def operations(schema: Mapping[str, Any]) -> Mapping[str, Operation]:
    return {
        f"{method.upper()} {path}": operation
        for path, of_path in schema["paths"].items()
        for method, operation in of_path.items()
    }


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_of_the_contract_is_in_the_schema(operations: Mapping[str, Operation], address: str) -> None:
    assert address in operations


def test_every_operation_has_a_name_a_tag_and_words(operations: Mapping[str, Operation]) -> None:
    for address, operation in operations.items():
        assert operation["operationId"], address
        assert set(operation["tags"]) <= {"auth", "accounts", "jobs", "matching", "pilots", "resources"}, address
        assert operation.get("summary") or operation.get("description"), address
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))


def test_every_operation_that_asks_who_calls_tells_of_401_and_403_in_the_one_shape(
    operations: Mapping[str, Operation],
) -> None:
    for address, operation in operations.items():
        answers = operation["responses"]
        if {} not in operation.get("security", [{}]):
            assert {"401", "403"} <= set(answers), address
        if "requestBody" in operation:
            assert {"400", "415"} <= set(answers), address
        if "{" in address:
            assert "404" in answers, address
        for status, answer in answers.items():
            if int(status) >= 400:
                assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorAnswer"), address


@pytest.mark.django_db
def test_the_documentation_needs_no_other_server() -> None:
    page = Client().get("/api/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert text.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in text
    script = Client().get("/api/docs/?script=").content.decode()
    linked = re.findall(r'(?:src|href)="([^"]+)"', text) + re.findall(r'"(https?:[^"]+)"', script)
    assert any(link.endswith("swagger-ui-bundle.js") for link in linked)
    for link in linked:
        assert link.startswith(("/static/", "/api/")), link
        if link.startswith("/static/"):
            assert finders.find(link.removeprefix("/static/")), link


@pytest.mark.django_db
def test_the_schema_is_answered_as_json_too() -> None:
    answer = Client().get("/api/schema/", headers={"Accept": "application/json"})
    assert (answer.status_code, json.loads(answer.content)["openapi"][:2]) == (200, "3.")
