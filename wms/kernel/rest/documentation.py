"""Errors and tokens in the OpenAPI schema."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from wms.kernel.rest.authentication import BearerAuthentication
from wms.kernel.rest.errors import PROBLEM
from wms.kernel.rest.serializers import StrictSerializer
from wms.wire.protocol import API_V1

if TYPE_CHECKING:
    from drf_spectacular.openapi import AutoSchema  # NB: at run time a cycle, see the package's docstring

MEANING = {
    HTTPStatus.BAD_REQUEST: "The input is wrong.",
    HTTPStatus.UNAUTHORIZED: "No credentials, or none that are valid.",
    HTTPStatus.FORBIDDEN: "The caller is known and may not do this.",
    HTTPStatus.NOT_FOUND: "There is no such object, or the caller may not see it.",
    HTTPStatus.NOT_ACCEPTABLE: "The client accepts no JSON.",
    HTTPStatus.CONFLICT: "Not possible now.",
    HTTPStatus.GONE: "No longer kept.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Larger than this server accepts.",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "The file has none of the bytes that Range names.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "This kind of body is not accepted here.",
    HTTPStatus.UPGRADE_REQUIRED: "The client is a version of wms-client that this server no longer serves.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many; Retry-After says in how many seconds to try again.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not settled in time; Retry-After says in how many seconds to repeat the request.",
}


class ErrorAnswer(serializers.Serializer[Any]):
    """The body of every error: a problem in the sense of RFC 9457."""

    type = serializers.URLField(help_text="Address of a page about the code.")
    title = serializers.CharField(help_text="Meaning of the code.")
    status = serializers.IntegerField(help_text="Status of the answer.")
    code = serializers.CharField(help_text="Error code, for programs.")
    detail = serializers.CharField(help_text="Sentence that says what is wrong and what to do.")
    errors = serializers.DictField(  # type: ignore[assignment]  # the framework's property of this name stays
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Sentences by field; names of nested fields are dotted; `body` is the whole body.",
    )


def without_old_addresses(
    endpoints: Sequence[tuple[str, str, str, Callable[..., object]]],
) -> list[tuple[str, str, str, Callable[..., object]]]:
    """Return the endpoints for the schema: those of this version, and not the addresses of old agents (ADR 52)."""
    return [endpoint for endpoint in endpoints if endpoint[0].startswith(API_V1)]


def error_responses(*statuses: int) -> dict[tuple[int, str], OpenApiResponse]:
    """Return the documentation of errors with these statuses, to be merged into extend_schema's ``responses``."""
    return {
        (status, PROBLEM): OpenApiResponse(ErrorAnswer, description=MEANING[HTTPStatus(status)]) for status in statuses
    }


def with_refusal_of_clients(result: dict[str, Any], **_of_the_hook: object) -> dict[str, Any]:
    """Return the document with 426 at all operations but that of the version (``StrictRequests``)."""
    answer = {
        "description": MEANING[HTTPStatus.UPGRADE_REQUIRED],
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}},
    }
    for path, operations in result["paths"].items():
        for operation in operations.values() if path != API_V1 else ():
            operation["responses"][str(int(HTTPStatus.UPGRADE_REQUIRED))] = answer
    return result


def with_plain_any(result: object, **_of_the_hook: object) -> object:
    """Return the document with fields of any JSON that may be null as {}.

    drf-spectacular has them as one of {} and null, and a null would be both.
    """
    if isinstance(result, list):
        return [with_plain_any(each) for each in result]
    if not isinstance(result, dict):
        return result
    kept = {name: each for name, each in result.items() if (name, each) != ("oneOf", [{}, {"type": "null"}])}
    return {name: with_plain_any(each) for name, each in kept.items()}


class BearerScheme(OpenApiAuthenticationExtension):
    """Every kind of bearer token, under the name that its authentication class defines."""

    target_class = BearerAuthentication
    match_subclasses = True

    @property
    def name(self) -> str:  # type: ignore[override]  # there a class attribute, here that of the class found
        """Return the name of the scheme."""
        return str(self.target.scheme_name)

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """Return the definition of the scheme."""
        return {"type": "http", "scheme": "bearer", "description": self.target.scheme_description}


class StrictSchema(OpenApiSerializerExtension):
    """Strict serializers: the schema forbids other fields, too."""

    target_class = StrictSerializer
    match_subclasses = True

    def map_serializer(self, auto_schema: "AutoSchema", direction: str) -> dict[str, object]:
        """Return the schema of the serializer, without additional properties."""
        schema: dict[str, object] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001 - as it documents
        return {**schema, "additionalProperties": False}
