"""Every operation of the schema, by every kind of caller, with values that fit the schema and values that do not.

No input makes the server fail, and every answer is one that the schema describes.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from tests.fuzz.conftest import Fresh
from tests.fuzz.sample import CALLERS, SampleData
from tests.oidc import ID
from wms.wsgi import application

CONFIG: Final = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
SCHEMA: Final = schemathesis.openapi.from_wsgi("/api/v1/schema/", application, config=CONFIG)
OPERATIONS: Final[Mapping[str, schemathesis.APIOperation[Any, Any, Any, Any]]] = {
    found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)
}
CHECKS: Final = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def known_values(sample: SampleData) -> Mapping[str, Sequence[str]]:
    """Return values of path parameters for which the address exists."""
    return {
        "id": [str(job_id) for job_id in sample.job_ids],
        "match_id": [str(match_id) for match_id in sample.match_ids],
        "digest": [sample.sandbox],
        "name": ["lhcb_user", "LCG.CERN.ch"],  # of a group, of a site
        "provider": [ID],
    }


def cases() -> list[tuple[str, schemathesis.GenerationMode]]:
    """Return each operation with valid values, and, if it takes any, with invalid ones."""
    positive, negative = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    takes = {
        # Of a path that takes any text nothing does not fit.
        label: any((found.query, found.body)) or {each.name for each in found.path_parameters} - {"name", "provider"}
        for label, found in OPERATIONS.items()
    }
    return [(label, mode) for label in OPERATIONS for mode in (positive, negative) if mode is positive or takes[label]]


@pytest.mark.parametrize(("label", "mode"), cases())
def test_every_answer_is_one_that_the_schema_tells_of(
    sample: SampleData, fresh: Fresh, label: str, mode: schemathesis.GenerationMode
) -> None:
    operation, known = OPERATIONS[label], known_values(sample)

    @settings(settings.get_profile("fuzz"))
    @given(st.data())
    def call(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        for name in case.path_parameters:
            # Mostly what exists: of addresses that do not, nothing behind the look-up would be tried.
            if data.draw(st.integers(0, 3)):
                case.path_parameters[name] = data.draw(st.sampled_from(known[name]))
        with fresh():
            # This client does not decompress.
            identity = {"Accept-Encoding": "identity"}
            answer = case.call(headers=identity | sample.headers_of(data.draw(st.sampled_from(CALLERS))))
            case.validate_response(answer, checks=CHECKS)

    call()


@pytest.mark.parametrize("caller", CALLERS)
def test_a_method_that_the_schema_does_not_tell_of_is_refused(sample: SampleData, caller: str) -> None:
    known = {name: values[0] for name, values in known_values(sample).items()}
    client = APIClient(headers=sample.headers_of(caller))
    refusals = {401: "not_authenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
    for path, of_path in groupby(OPERATIONS.values(), key=lambda operation: operation.path):
        taken = {operation.method.upper() for operation in of_path}
        for method in METHODS:
            if method in taken:
                continue
            answer = client.generic(method, path.format(**known))
            # Who may not call the address at all is told so first.
            assert answer.status_code in refusals, (method, path)
            assert answer.json()["code"] == refusals[answer.status_code], (method, path)
            if answer.status_code == 405:
                assert taken <= set(answer["Allow"].split(", ")), (method, path)
