"""The OpenAPI schema, made once for each process: it is the same for every caller, and takes a second to make.

NB: not exported by wms.kernel.rest, whose docstring has the reason: this imports the framework's views.
"""

from hashlib import sha256
from typing import ClassVar, NamedTuple

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

#: Seconds for which clients may cache the schema, which an upgrade may change.
_MAX_AGE_S = 300


class _CachedSchema(NamedTuple):
    content: bytes
    content_type: str
    etag: str


class SchemaView(SpectacularAPIView):
    """The schema, as YAML or as JSON, with its ETag."""

    #: By media type.
    _cached: ClassVar[dict[str, _CachedSchema]] = {}

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponseBase:
        """Return the schema, or 304 if the client has it already."""
        renderer = request.accepted_renderer
        cached = self._cached.get(renderer.media_type)
        if cached is None:
            schema = super().get(request, *args, **kwargs).data
            content = renderer.render(schema, renderer.media_type, {})
            content = content if isinstance(content, bytes) else str(content).encode()
            cached = _CachedSchema(content, f"{renderer.media_type}; charset=utf-8", f'"{sha256(content).hexdigest()}"')
            self._cached[renderer.media_type] = cached
        answer = HttpResponse(cached.content, content_type=cached.content_type)
        answer["ETag"] = cached.etag
        answer["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
        return get_conditional_response(request, etag=cached.etag, response=answer) or answer
