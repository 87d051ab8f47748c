"""Every refusal has the same body, whichever layer raised it."""

from http import HTTPStatus
from types import SimpleNamespace

import pytest
from django.core.exceptions import (
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
    ValidationError,
)
from django.http import Http404, UnreadablePostError
from rest_framework import exceptions
from rest_framework.parsers import JSONParser

from tests.problems import MEDIA_TYPE, of_problem
from wms.kernel import errors
from wms.kernel.rest import answer_error
from wms.kernel.rest.errors import MAX_FIELDS


class LeaseEndedError(errors.ConflictError):
    code = "lease_ended"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.RejectedError("No."), 400, "rejected"),
        (errors.TooLargeError("No."), 413, "too_large"),
        (errors.UnauthenticatedError("No."), 401, "not_authenticated"),
        (errors.ForbiddenError("No."), 403, "forbidden"),
        (errors.NotFoundError("No."), 404, "not_found"),
        (errors.ConflictError("No."), 409, "conflict"),
        (LeaseEndedError("No."), 409, "lease_ended"),
        (errors.TooManyError("No.", retry_after_s=7), 429, "too_many"),
        (errors.UnavailableError("No.", retry_after_s=7), 503, "unavailable"),
        (exceptions.ParseError("No."), 400, "malformed_request"),
        (exceptions.ValidationError("No."), 400, "invalid_input"),
        (exceptions.NotAuthenticated("No."), 401, "not_authenticated"),
        (exceptions.AuthenticationFailed("No."), 401, "authentication_failed"),
        (exceptions.AuthenticationFailed("No.", code="invalid_token"), 401, "invalid_token"),
        (exceptions.PermissionDenied("No."), 403, "forbidden"),
        (exceptions.PermissionDenied("No.", code="not_your_queue"), 403, "not_your_queue"),
        (exceptions.NotFound("No."), 404, "not_found"),
        (exceptions.MethodNotAllowed("PUT", "No."), 405, "method_not_allowed"),
        (exceptions.NotAcceptable("No."), 406, "not_acceptable"),
        (exceptions.UnsupportedMediaType("text/plain", "No."), 415, "unsupported_media_type"),
        (exceptions.Throttled(detail="No."), 429, "throttled"),
        (PermissionDenied("No."), 403, "forbidden"),
        (ValidationError("No."), 400, "invalid_input"),
    ],
)
def test_every_refusal_has_code_and_detail(error: Exception, status: int, code: str) -> None:
    answer = answer_error(error, {})
    assert answer is not None
    assert answer.status_code == status
    assert answer.data["code"] == code
    assert answer.data["detail"] == "No."


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Http404("No Job matches the given query."), 404, "not_found"),
        (RequestDataTooBig(), 413, "too_large"),
        (TooManyFieldsSent(), 400, "bad_request"),
        (SuspiciousOperation("inner workings"), 400, "bad_request"),
        (UnreadablePostError("inner workings"), 400, "bad_request"),
    ],
)
def test_internal_messages_of_django_are_not_shown(error: Exception, status: int, code: str) -> None:
    answer = answer_error(error, {})
    assert answer is not None
    assert answer.status_code == status
    assert answer.content_type == MEDIA_TYPE
    assert of_problem(answer.data)[:2] == (status, code)
    assert "errors" not in answer.data
    assert str(error) not in answer.data["detail"] or not str(error)


@pytest.mark.parametrize("error", [KeyError("x"), errors.WmsError("without a category"), OSError()])
def test_an_internal_error_is_not_answered_as_a_refusal(error: Exception) -> None:
    assert answer_error(error, {}) is None


@pytest.mark.parametrize(
    "error",
    [exceptions.NotAuthenticated(), exceptions.AuthenticationFailed(), errors.UnauthenticatedError("Log in.")],
)
def test_a_401_requests_a_bearer_token(error: Exception) -> None:
    answer = answer_error(error, {})
    assert answer is not None
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="wms"'


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (exceptions.Throttled(wait=2.1), "3"),
        (errors.TooManyError("No.", retry_after_s=9), "9"),
        (errors.TooManyError("No.", retry_after_s=0), "1"),
        (errors.UnavailableError("No.", retry_after_s=9), "9"),
    ],
)
def test_a_429_or_503_has_retry_after(error: Exception, seconds: str) -> None:
    answer = answer_error(error, {})
    assert answer is not None
    assert answer.headers["Retry-After"] == seconds


def test_a_415_names_the_accepted_media_types() -> None:
    view = SimpleNamespace(parser_classes=[JSONParser])
    answer = answer_error(exceptions.UnsupportedMediaType("text/plain"), {"view": view})
    assert answer is not None
    assert answer.data["detail"] == 'Unsupported media type "text/plain" in request. Send application/json.'


def test_errors_of_a_service_reach_the_caller_by_field() -> None:
    error = errors.RejectedError("Two fields are wrong.", errors={"jobs.3.executable": ["Missing."], "group": ["No."]})
    answer = answer_error(error, {})
    assert answer is not None
    assert answer.data["errors"] == {"jobs.3.executable": ["Missing."], "group": ["No."]}


@pytest.mark.parametrize(
    ("detail", "flat"),
    [
        ({"a": ["No."]}, {"a": ["No."]}),
        ({"a": "No."}, {"a": ["No."]}),
        ({"a": ["No.", "Never."]}, {"a": ["No.", "Never."]}),
        ({"a": {"b": {"c": ["No."]}}}, {"a.b.c": ["No."]}),
        ({"a": [{}, {"b": ["No."]}]}, {"a.1.b": ["No."]}),
        ({"a": {2: ["No."]}}, {"a.2": ["No."]}),
        ({"non_field_errors": ["No."]}, {"body": ["No."]}),
        ({"a": {"non_field_errors": ["No."]}}, {"a": ["No."]}),
        ([{}, {"a": ["No."]}], {"1.a": ["No."]}),
        (["No."], {"body": ["No."]}),
        ("No.", {"body": ["No."]}),
    ],
)
def test_nested_errors_get_dotted_names(detail: object, flat: dict[str, list[str]]) -> None:
    answer = answer_error(exceptions.ValidationError(detail), {})  # type: ignore[arg-type]
    assert answer is not None
    assert answer.data["errors"] == flat


def test_validation_errors_of_models_are_reported_by_field() -> None:
    answer = answer_error(ValidationError({"name": ["No."]}), {})
    assert answer is not None
    assert (answer.status_code, answer.data["errors"]) == (HTTPStatus.BAD_REQUEST, {"name": ["No."]})


def test_the_answer_to_ten_thousand_wrong_fields_is_bounded() -> None:
    answer = answer_error(exceptions.ValidationError([{"executable": ["No."]}] * 10_000), {})
    assert answer is not None
    assert len(answer.data["errors"]) == MAX_FIELDS
    assert answer.data["detail"] == "0.executable: No. (9999 more in errors)"


def test_a_sentence_that_repeats_a_long_input_is_shortened() -> None:
    answer = answer_error(exceptions.ValidationError({"a": ["x" * 1_000_000]}), {})
    assert answer is not None
    assert len(answer.data["errors"]["a"][0]) == len(answer.data["detail"]) == 500
