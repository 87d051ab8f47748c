"""The examples of the OpenAPI document: every JSON body has one, all are valid, those of submissions are accepted."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from openapi_schema_validator import OAS31Validator, oas31_format_checker

from tests.api.contract.conftest import Caller
from tests.api.contract.test_users import upload
from wms.kernel.rest import examples

#: {form of a submission: jobs that its example makes}.
FORMS = {"description": 1, "parametric": 100, "parametric by name": 2, "jobs": 3, "jdl": 1, "cfg": 1}


class Body(NamedTuple):
    """One media type of a request or of an answer."""

    operation_id: str
    #: "request", or the status of the answer.
    side: str
    media_type: str
    content: Mapping[str, Any]

    def examples(self) -> list[Any]:
        """Return the values of its examples."""
        if "example" in self.content:
            return [self.content["example"]]
        return [each["value"] for each in self.content.get("examples", {}).values()]


def bodies(schema: Mapping[str, Any]) -> Iterator[Body]:
    for path in schema["paths"].values():
        for operation in path.values():
            sides = {"request": operation.get("requestBody", {}), **operation["responses"]}
            for side, has in sides.items():
                for media_type, content in has.get("content", {}).items():
                    yield Body(operation["operationId"], side, media_type, content)


def closed(schema: Any) -> Any:
    """Return the schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(made.get("properties"), dict) else made


def is_error(body: Body) -> bool:
    return body.side.isdecimal() and int(body.side) >= 400


def test_every_body_of_every_operation_has_an_example(schema: Mapping[str, Any]) -> None:
    # Files are not JSON; errors have one example, at their component.
    shown = {"application/json", "multipart/form-data"}
    without = [
        body[:3] for body in bodies(schema) if not is_error(body) and body.media_type in shown if not body.examples()
    ]
    assert without == []
    assert {body.content["schema"]["$ref"] for body in bodies(schema) if is_error(body)} == {
        "#/components/schemas/ErrorAnswer"
    }


def test_every_example_is_valid_and_has_no_field_that_the_document_lacks(schema: Mapping[str, Any]) -> None:
    strict = closed(schema)
    errors: list[tuple[object, str, str]] = []
    for body in bodies(strict):
        validator = OAS31Validator(
            {**body.content["schema"], "components": strict["components"]}, format_checker=oas31_format_checker
        )
        for example in body.examples():
            errors += [(body[:3], error.json_path, error.message) for error in validator.iter_errors(example)]
    error = strict["components"]["schemas"]["ErrorAnswer"]
    errors += [
        ("ErrorAnswer", each.json_path, each.message) for each in OAS31Validator(error).iter_errors(error["example"])
    ]
    assert errors == []


def test_a_wrong_example_is_detected(schema: Mapping[str, Any]) -> None:
    (body,) = (
        each for each in bodies(closed(schema)) if (each.operation_id, each.side) == ("auth_token_create", "201")
    )
    validator = OAS31Validator({**body.content["schema"], "components": closed(schema)["components"]})
    (example,) = body.examples()
    assert not [*validator.iter_errors(example)]
    assert [*validator.iter_errors({**example, "valid_for": 1})]
    assert [*validator.iter_errors({"token": example["token"]})]


def test_an_example_of_what_does_not_exist_is_refused(
    schema: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for operation_id in ("jobs_nonsense", "auth_revoke"):
        made: list[tuple[str, Mapping[str, Any]]] = [(operation_id, {"answer": {}})]
        monkeypatch.setattr(examples, "_examples", lambda made=made: iter(made))
        with pytest.raises(examples.UnknownExampleError, match=operation_id):
            examples.with_examples(dict(schema))


def test_every_form_of_a_submission_is_accepted_as_the_document_shows_it(
    schema: Mapping[str, Any], alice: Caller
) -> None:
    (body,) = (each for each in bodies(schema) if (each.operation_id, each.side) == ("jobs_submit", "request"))
    shown = {name: each["value"] for name, each in body.content["examples"].items()}
    uploaded = upload(alice, b'#!/bin/sh\nexec simulate "$@"\n', name="run.sh")
    assert shown["description"]["input_sandbox"] == [uploaded["sandbox"]]
    (of_upload,) = (each for each in bodies(schema) if (each.operation_id, each.side) == ("sandboxes_upload", "201"))
    assert of_upload.examples() == [uploaded]

    answers = {name: alice("POST", "/jobs/", each, status=201) for name, each in shown.items()}

    assert {name: len(answer["jobs"]) for name, answer in answers.items()} == FORMS
    assert {job["status"] for answer in answers.values() for job in answer["jobs"]} == {"Waiting"}
    assert {name: answer["warnings"] for name, answer in answers.items() if answer["warnings"]} == {}
