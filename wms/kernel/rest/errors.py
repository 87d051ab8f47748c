"""Errors in one shape: problem details (RFC 9457) with our code and the sentences by field (docs/rest.md)."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.http import Http404, UnreadablePostError
from rest_framework import exceptions
from rest_framework.response import Response

from wms.kernel.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    RejectedError,
    TooLargeError,
    TooManyError,
    UnauthenticatedError,
    UnavailableError,
    UnsatisfiableRangeError,
    WmsError,
)
from wms.kernel.rest.error_codes import ERROR_CODES, PAGES
from wms.kernel.rest.serializers import NON_FIELD_ERRORS

#: Media type of every error.
PROBLEM = "application/problem+json"

STATUS_OF_CATEGORY: Mapping[type[WmsError], HTTPStatus] = {
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,  # NB: before RejectedError, its base class
    RejectedError: HTTPStatus.BAD_REQUEST,
    UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    ForbiddenError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    GoneError: HTTPStatus.GONE,
    UnsatisfiableRangeError: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    TooManyError: HTTPStatus.TOO_MANY_REQUESTS,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}
#: Our code for the framework's, where they differ.
CODE_OF_FRAMEWORK = {"permission_denied": "forbidden", "invalid": "invalid_input", "parse_error": "malformed_request"}
#: Fields reported at most: 10,000 wrong jobs need no 10,000 sentences.
MAX_FIELDS = 100
#: Characters: sentences of the framework repeat the input, which may be long.
MAX_SENTENCE = 500
WWW_AUTHENTICATE = 'Bearer realm="wms"'

Errors = dict[str, list[str]]


def answer_error(error: Exception, context: Mapping[str, object]) -> Response | None:
    """Return the answer to *error*, or None if it is a fault of the server (500).

    Django REST framework's EXCEPTION_HANDLER.
    """
    if isinstance(error, WmsError):
        return _answer_ours(error)
    if isinstance(error, DjangoValidationError):
        error = exceptions.ValidationError(error.message_dict if hasattr(error, "error_dict") else error.messages)
    if isinstance(error, exceptions.APIException):
        return _answer_framework(error, taken=_media_types(context))
    return _answer_django(error)


def error_body(status: int, code: str, detail: str, errors: Mapping[str, list[str]] | None = None) -> dict[str, object]:
    """Return the body of an error."""
    described = ERROR_CODES.get(code)
    body: dict[str, object] = {
        "type": f"{settings.WMS_SERVER_URL.rstrip('/')}{PAGES}{code}/",
        "title": HTTPStatus(status).phrase if described is None else described.title,
        "status": int(status),
        "code": code,
        "detail": _shortened(detail),
    }
    if errors:
        body["errors"] = {
            field: [_shortened(sentence) for sentence in errors[field]] for field in list(errors)[:MAX_FIELDS]
        }
    return body


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[: MAX_SENTENCE - 1]}…"


def _answer_ours(error: WmsError) -> Response | None:
    status = next((status for category, status in STATUS_OF_CATEGORY.items() if isinstance(error, category)), None)
    if status is None:
        return None
    headers = {}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = WWW_AUTHENTICATE
    if isinstance(error, TooManyError | UnavailableError):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, UnsatisfiableRangeError):
        headers["Content-Range"] = f"bytes */{error.size_bytes}"
    return _problem(status, error.code, error.detail, error.errors, headers=headers)


def _problem(
    status: int,
    code: str,
    detail: str,
    errors: Mapping[str, list[str]] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return Response(error_body(status, code, detail, errors), status=status, headers=headers, content_type=PROBLEM)


def _media_types(context: Mapping[str, object]) -> str:
    return ", ".join(parser.media_type for parser in getattr(context.get("view"), "parser_classes", ()))


def _answer_framework(error: exceptions.APIException, *, taken: str) -> Response:
    if isinstance(error, exceptions.ValidationError):
        return _answer_validation(error)
    status, headers = error.status_code, {}
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        # The framework answers 403 where a view has no bearer token; missing credentials are 401 everywhere.
        status = HTTPStatus.UNAUTHORIZED
        headers["WWW-Authenticate"] = WWW_AUTHENTICATE
    wait_s = getattr(error, "wait", None)
    if wait_s is not None:
        headers["Retry-After"] = str(int(wait_s))
    code = getattr(error.detail, "code", None) or error.default_code
    detail = str(error.detail)
    if isinstance(error, exceptions.UnsupportedMediaType) and taken:
        detail = f"{detail} Send {taken}."
    return _problem(status, CODE_OF_FRAMEWORK.get(code, code), detail, headers=headers)


def _answer_validation(error: exceptions.ValidationError) -> Response:
    errors: Errors = {}
    for field, sentence in _flat(error.detail):
        errors.setdefault(field, []).append(sentence)
    return _problem(HTTPStatus.BAD_REQUEST, "invalid_input", summary(errors), errors)


def summary(errors: Mapping[str, list[str]]) -> str:
    """Return one sentence that summarises the errors of all fields."""
    if not errors:
        return "The input is wrong."
    field, sentences = next(iter(errors.items()))
    first = sentences[0] if sentences else "is wrong."
    more = f" ({len(errors) - 1} more in errors)" if len(errors) > 1 else ""
    return f"{first}{more}" if field == "body" else f"{field}: {first}{more}"


def _flat(detail: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted name of the field, sentence); errors of the whole input belong to the field "body"."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            of_parent = name in {NON_FIELD_ERRORS, "__all__"}
            yield from _flat(inner, path if of_parent else _joined(path, str(name)))
    elif isinstance(detail, list | tuple):
        for position, inner in enumerate(detail):
            nested = isinstance(inner, Mapping | list | tuple)
            yield from _flat(inner, _joined(path, str(position)) if nested else path)
    else:
        yield path or "body", str(detail)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _answer_django(error: Exception) -> Response | None:
    if isinstance(error, Http404):
        detail = "There is no such object, or you may not see it; what has ended may have been removed."
        return _problem(HTTPStatus.NOT_FOUND, "not_found", detail)
    if isinstance(error, PermissionDenied):
        return _problem(HTTPStatus.FORBIDDEN, "forbidden", str(error) or "You may not do this.")
    if isinstance(error, RequestDataTooBig):
        detail = "The body is larger than this server accepts; send it in several requests."
        return _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", detail)
    if isinstance(error, SuspiciousOperation | UnreadablePostError):
        detail = "The request cannot be read; send it again as the documentation says."
        return _problem(HTTPStatus.BAD_REQUEST, "bad_request", detail)
    return None
