"""Endpoints that pilots ask thousands of times a second.

NB: not among the names of wms.kernel.rest, which says why: this imports the framework's views.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from wms.kernel.rest.authentication import BearerAuthentication
from wms.kernel.rest.strict_json import load_json

_JSON: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder(enc_hook=JSONEncoder().default)


class PlainJSONRenderer(JSONRenderer):
    """JSON, by an encoder that takes a tenth of the time."""

    def render(
        self,
        data: Any,  # noqa: ANN401 - whatever JSON holds
        accepted_media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the framework's signature
    ) -> bytes:
        """Return the body of the answer."""
        return b"" if data is None else _ENCODER.encode(data)


class PlainRequest(Request):
    """A request of which nothing has to be found out: who sends it is known, and it is JSON that asks for JSON."""

    accepted_renderer = PlainJSONRenderer()
    accepted_media_type = _JSON

    @property
    def data(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The body."""
        return load_json(self._request.body)


class MachineView(APIView):
    """A view of which plain requests skip what costs the framework most: negotiation, and authentication in turns.

    Whatever is not plain, or carries a token that is not valid, takes the framework's way. Permissions, the view's own
    method and the answers to errors are the same on both.
    """

    #: Whose tokens, looked for in this order, make a request plain.
    callers: ClassVar[tuple[BearerAuthentication, ...]]

    def initialize_request(self, request: HttpRequest, *args: object, **kwargs: object) -> Request:
        """Return the request as the view's method gets it."""
        if is_plain(request):
            for known in self.callers:
                try:
                    found = known.authenticate(request)
                except AuthenticationFailed:
                    break
                if found is not None:
                    plain = PlainRequest(request, negotiator=self.get_content_negotiator())
                    plain.user, plain.auth = found
                    return plain
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse who may not call this view."""
        if isinstance(request, PlainRequest):
            self.check_permissions(request)
        else:
            super().initial(request, *args, **kwargs)


def is_plain(request: HttpRequest) -> bool:
    """Return whether the request is a POST of JSON, of a length that is told, that takes JSON as the answer."""
    header = request.META
    return (
        request.method == "POST"
        and header.get("CONTENT_TYPE") == _JSON
        and header.get("HTTP_ACCEPT", "*/*") in {"*/*", _JSON}
        and "1" <= header.get("CONTENT_LENGTH", "")[:1] <= "9"
    )
