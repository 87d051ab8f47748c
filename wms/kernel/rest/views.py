"""Views of the interface itself: its version (docs/rest.md, Versions), its schema, and the pages of its error codes.

NB: not exported by wms.kernel.rest, whose docstring has the reason: this imports the framework's views.
"""

from collections.abc import Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.kernel.handlers import api_error
from wms.kernel.middleware import oldest_client
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.error_codes import ERROR_CODES, ErrorCode, as_sentence
from wms.wire.version import __version__

#: The number in the addresses.
API_VERSION = 1


class VersionOut(serializers.Serializer[Any]):
    """The versions of a server."""

    version = serializers.CharField(help_text="Version of the server.")
    api_version = serializers.IntegerField(help_text="Version of the interface, as in its addresses.")
    oldest_client = serializers.CharField(help_text="Oldest version of wms-client that the server serves.")


class VersionView(APIView):
    """The version of the server; without authentication, so that each client can read it, also one that is too old."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="version",
        summary="Show the version of the server",
        tags=[Audience.USERS],
        responses={200: VersionOut, **error_responses(406)},
    )
    def get(self, request: Request) -> Response:
        """Return the version of the server, and that of the oldest client that it serves."""
        return Response({"version": __version__, "api_version": API_VERSION, "oldest_client": oldest_client()})


#: Seconds for which clients may cache the schema, which an upgrade may change.
_MAX_AGE_S = 300


class _CachedSchema(NamedTuple):
    content: bytes
    content_type: str
    etag: str


class SchemaView(SpectacularAPIView):
    """The OpenAPI schema, as YAML or as JSON, with its ETag.

    Made once for each process: it is the same for every caller, and takes a second to make.
    """

    #: By media type.
    _cached: ClassVar[dict[str, _CachedSchema]] = {}

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponseBase:
        """Return the schema, or 304 if the client has it already."""
        renderer = request.accepted_renderer
        cached = self._cached.get(renderer.media_type)
        if cached is None:
            schema = super().get(request, *args, **kwargs).data  # type: ignore[no-untyped-call]  # the package's own
            content = renderer.render(schema, renderer.media_type, {})
            content = content if isinstance(content, bytes) else str(content).encode()
            cached = _CachedSchema(content, f"{renderer.media_type}; charset=utf-8", f'"{sha256(content).hexdigest()}"')
            self._cached[renderer.media_type] = cached
        answer = HttpResponse(cached.content, content_type=cached.content_type)
        answer["ETag"] = cached.etag
        answer["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
        return get_conditional_response(request, etag=cached.etag, response=answer) or answer


@method_decorator(csrf_exempt, name="dispatch")  # they change nothing, and 405 is the better answer
class _ErrorsView(View):
    """Base of the pages of error codes, to which the ``type`` of each error leads (RFC 9457); for programs as JSON.

    No APIView: to somebody who is logged in, they are pages of the portal.
    """

    http_method_names = ("get", "head")

    def http_method_not_allowed(self, request: HttpRequest, *_args: object, **_arguments: object) -> HttpResponse:
        """Refuse another method as the rest of the interface does."""
        answer = api_error(
            HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", f'Method "{request.method}" not allowed.'
        )
        answer["Allow"] = ", ".join(name.upper() for name in self.http_method_names)
        return answer


class ErrorListView(_ErrorsView):
    """All codes, by status."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with all codes."""
        described = list(ERROR_CODES.values())
        if _wants_json(request):
            return JsonResponse({"results": [_as_record(each) for each in described]})
        return _page(request, described, title="Errors")


class ErrorView(_ErrorsView):
    """One code."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """Answer with the code; 404 if there is none of this name."""
        described = ERROR_CODES.get(code)
        if described is None:
            raise Http404
        if _wants_json(request):
            return JsonResponse(_as_record(described))
        return _page(request, [described], title=code)


def _wants_json(request: HttpRequest) -> bool:
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def _page(request: HttpRequest, described: Sequence[ErrorCode], *, title: str) -> HttpResponse:
    rows = [(each, as_sentence(each.meaning), as_sentence(each.remedy)) for each in described]
    return render(request, "error_codes.html", {"title": title, "rows": rows})


def _as_record(described: ErrorCode) -> dict[str, object]:
    return {
        "code": described.code,
        "status": int(described.status),
        "title": described.title,
        "what_to_do": as_sentence(described.remedy),
    }
