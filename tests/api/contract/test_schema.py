"""The OpenAPI schema: it has every address of the contract, no warnings, and pages without foreign scripts."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from openapi_spec_validator import validate

from wms.kernel.rest.audience import Audience

#: On which clients rely; docs/rest.md has all.
ADDRESSES = [
    "POST /api/v1/auth/token/",
    "GET /api/v1/auth/me/",
    "GET /api/v1/auth/tokens/",
    "DELETE /api/v1/auth/tokens/{id}/",
    "POST /api/v1/jobs/",
    "GET /api/v1/jobs/",
    "GET /api/v1/jobs/summary/",
    "GET /api/v1/jobs/failures/",
    "GET /api/v1/jobs/explain/",
    "POST /api/v1/jobs/rehearsal/",
    "POST /api/v1/jobs/yaml/",
    "GET /api/v1/submissions/",
    "GET /api/v1/submissions/{id}/",
    "GET /api/v1/pilots/",
    "GET /api/v1/jobs/{id}/",
    "GET /api/v1/jobs/{id}/history/",
    "GET /api/v1/jobs/{id}/explain/",
    "GET /api/v1/jobs/{id}/output/",
    "GET /api/v1/jobs/{id}/peek/",
    "POST /api/v1/jobs/{id}/kill/",
    "POST /api/v1/jobs/{id}/reschedule/",
    "POST /api/v1/jobs/{id}/delete/",
    "POST /api/v1/jobs/{id}/hold/",
    "POST /api/v1/jobs/{id}/release/",
    "PATCH /api/v1/jobs/{id}/",
    "POST /api/v1/jobs/bulk/",
    "POST /api/v1/jobs/retry/",
    "POST /api/v1/sandboxes/",
    "GET /api/v1/task-queues/",
    "GET /api/v1/groups/",
    "GET /api/v1/groups/{name}/shares/",
    "GET /api/v1/sites/",
    "POST /api/v1/sites/{name}/advertisements/",
    "GET /api/v1/replicas/",
    "POST /api/v1/replicas/",
    "POST /api/v1/replicas/remove/",
    "POST /api/v1/matches/{match_id}/outputs/",
    "POST /api/v1/matches/{match_id}/replicas/",
    "GET /api/v1/gateway/wms_advertise.py",
    "GET /api/v1/pilots/config/",
    "GET /api/v1/pilots/agent.pyz",
    "GET /api/v1/pilots/pilot.sh",
    "POST /api/v1/pilots/register/",
    "POST /api/v1/pilots/report/",
    "POST /api/v1/matches/",
    "POST /api/v1/matches/{match_id}/status/",
    "POST /api/v1/matches/{match_id}/heartbeat/",
    "POST /api/v1/matches/{match_id}/finish/",
    "POST /api/v1/matches/preview/",
    "GET /api/v1/submit-pools/",
    "GET /api/v1/submit-pools/eligible/",
    "GET /api/v1/pilots/summary/",
]

Operation = Mapping[str, Any]


@pytest.fixture(scope="module")
def operations(schema: Mapping[str, Any]) -> Mapping[str, Operation]:
    return {
        f"{method.upper()} {path}": operation
        for path, of_path in schema["paths"].items()
        for method, operation in of_path.items()
    }


def test_the_schema_is_valid_openapi(schema: Mapping[str, Any]) -> None:
    validate(schema)
    assert schema["openapi"] == "3.1.1"


def test_every_address_of_the_contract_is_in_the_schema(operations: Mapping[str, Operation]) -> None:
    assert [address for address in ADDRESSES if address not in operations] == []


def test_every_operation_has_a_name_a_tag_and_words(operations: Mapping[str, Operation]) -> None:
    for address, operation in operations.items():
        assert operation["operationId"], address
        assert len(operation["tags"]) == 1, address
        assert operation["summary"], address
        assert operation["description"], address
        assert any(400 <= int(status) < 500 for status in operation["responses"]), address
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))


def test_every_authenticated_operation_documents_401_and_403(
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
                assert answer["content"]["application/problem+json"]["schema"]["$ref"].endswith("/ErrorAnswer"), address


def test_operations_are_grouped_by_audience(schema: Mapping[str, Any]) -> None:
    described = {tag["name"] for tag in schema["tags"]}
    assert described == set(Audience)
    grouped = [operation["tags"] for path in schema["paths"].values() for operation in path.values()]
    assert {len(groups) for groups in grouped} == {1}
    assert {groups[0] for groups in grouped} == described


@pytest.mark.django_db
def test_the_api_documentation_loads_nothing_from_other_servers() -> None:
    page = Client().get("/api/v1/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert text.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in text
    script = Client().get("/api/v1/docs/?script=").content.decode()
    linked = re.findall(r'(?:src|href)="([^"]+)"', text) + re.findall(r'"(https?:[^"]+)"', script)
    assert any(link.endswith("swagger-ui-bundle.js") for link in linked)
    for link in linked:
        address = urlsplit(link)
        assert (address.scheme, address.netloc) == ("", ""), link
        assert link.startswith("/"), link
        if link.startswith("/static/"):
            assert finders.find(link.removeprefix("/static/")), link


@pytest.mark.django_db
def test_the_schema_is_answered_as_json_too() -> None:
    answer = Client().get("/api/v1/schema/", headers={"Accept": "application/json"})
    assert (answer.status_code, json.loads(answer.content)["openapi"][:2]) == (200, "3.")
