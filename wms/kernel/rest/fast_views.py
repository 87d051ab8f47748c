"""Base of the endpoints that pilots call thousands of times a second.

NB: not exported by wms.kernel.rest, whose docstring has the reason: this imports the framework's views.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from django.http import HttpRequest
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from wms.kernel.rest.authentication import BearerAuthentication
from wms.kernel.rest.strict_json import load_json

_JSON: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder(enc_hook=JSONEncoder().default)


class FastJSONRenderer(JSONRenderer):
    """JSON, by an encoder that takes a tenth of the framework's time."""

    def render(
        self,
        data: Any,  # noqa: ANN401 - whatever JSON holds
        accepted_media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the framework's signature
    ) -> bytes:
        """Return the encoded body."""
        return b"" if data is None else _ENCODER.encode(data)


class FastRequest(Request):
    """A request without negotiation: its body and answer are JSON, and its token selects the authentication."""

    accepted_renderer = FastJSONRenderer()
    accepted_media_type = _JSON

    @property
    def data(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The parsed body."""
        return load_json(self._request.body)


class MachineView(APIView):
    """A view whose plain requests skip the framework's slowest steps: negotiation, and the search for an authenticator.

    All other requests take the framework's way. Authentication, permissions, the view's own method and the answers to
    errors are the same on both.
    """

    #: Authentication classes whose tokens, by their prefix, make a request plain.
    callers: ClassVar[tuple[BearerAuthentication, ...]]

    def initialize_request(self, request: HttpRequest, *args: object, **kwargs: object) -> Request:
        """Return the request for the view's method."""
        caller = self._caller(request) if is_plain(request.META) else None
        if caller is None:
            return super().initialize_request(request, *args, **kwargs)
        return FastRequest(request, authenticators=(caller,), negotiator=self.get_content_negotiator())

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse callers without permission."""
        if not isinstance(request, FastRequest):
            super().initial(request, *args, **kwargs)
            return
        self.perform_authentication(request)
        self.check_permissions(request)

    def _caller(self, request: HttpRequest) -> BearerAuthentication | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        return next((each for each in self.callers if header.startswith(f"Bearer {each.prefix}")), None)


def is_plain(meta: Mapping[str, Any]) -> bool:
    """Return whether a request, by its headers, POSTs JSON with a Content-Length and accepts JSON."""
    return (
        meta.get("REQUEST_METHOD") == "POST"
        and meta.get("CONTENT_TYPE") == _JSON
        and meta.get("HTTP_ACCEPT", "*/*") in {"*/*", _JSON}
        and "1" <= meta.get("CONTENT_LENGTH", "")[:1] <= "9"
    )
