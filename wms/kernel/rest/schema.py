"""The OpenAPI schema, made once for each process: it is the same for everybody, and takes a second to make.

NB: not among the names of wms.kernel.rest, which says why: this imports the framework's views.
"""

from hashlib import sha256
from typing import ClassVar, NamedTuple

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

#: An upgrade may change the schema; so long after it a client may still have the old one.
_MAX_AGE_S = 300


class _Made(NamedTuple):
    content: bytes
    content_type: str
    etag: str


class SchemaView(SpectacularAPIView):
    """The schema, as YAML or as JSON, with its ETag."""

    #: By media type.
    _made: ClassVar[dict[str, _Made]] = {}

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponseBase:
        """Return the schema, or that it is still the same."""
        renderer = request.accepted_renderer
        made = self._made.get(renderer.media_type)
        if made is None:
            schema = super().get(request, *args, **kwargs).data  # type: ignore[no-untyped-call]
            content = renderer.render(schema, renderer.media_type, {})
            content = content if isinstance(content, bytes) else str(content).encode()
            made = _Made(content, f"{renderer.media_type}; charset=utf-8", f'"{sha256(content).hexdigest()}"')
            self._made[renderer.media_type] = made
        answer = HttpResponse(made.content, content_type=made.content_type)
        answer["ETag"] = made.etag
        answer["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
        return get_conditional_response(request, etag=made.etag, response=answer) or answer
