"""Every operation of the schema, by every kind of caller, with values that fit the schema and values that do not.

No input makes the server fail, and every answer is one that the schema describes.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from tests.fuzz.conftest import Fresh
from tests.fuzz.sample import CALLERS, SampleData
from tests.oidc import ID
from wms.wsgi import application

Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]
CONFIG: Final = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
SCHEMA: Final = schemathesis.openapi.from_wsgi("/api/v1/schema/", application, config=CONFIG)
OPERATIONS: Final[Mapping[str, Operation]] = {
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


def tag_of(operation: Operation) -> str:
    """Return the only tag of an operation."""
    (tag,) = operation.tags or []
    return tag


def takes_values(operation: Operation) -> bool:
    """Return whether there are values that do not fit; every text fits some arguments of paths."""
    fussy_arguments = {each.name for each in operation.path_parameters} - {"name", "provider"}
    return any((operation.query, operation.body, fussy_arguments))


@pytest.mark.parametrize("tag", sorted(set(map(tag_of, OPERATIONS.values()))))
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_answer_is_in_the_schema(
    sample: SampleData, fresh: Fresh, tag: str, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for label, operation in OPERATIONS.items():
        if tag == tag_of(operation) and (mode is GenerationMode.POSITIVE or takes_values(operation)):
            with subtests.test(label):
                call(operation, mode, sample=sample, fresh=fresh)


def call(operation: Operation, mode: GenerationMode, *, sample: SampleData, fresh: Fresh) -> None:
    known = known_values(sample)

    @settings(settings.get_profile("fuzz"))
    @given(st.data())
    def send(data: st.DataObject) -> None:
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

    send()


@pytest.mark.parametrize("caller", CALLERS)
def test_an_undocumented_method_is_refused(sample: SampleData, caller: str) -> None:
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
