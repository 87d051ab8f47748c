"""Views of machines (docs/architecture.md, Answering machines fast)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from django.http import HttpRequest
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from wms.kernel.clients import CLIENT
from wms.kernel.errors import WmsError
from wms.kernel.fast.serializers import FastSerializer
from wms.kernel.rest.authentication import BearerAuthentication
from wms.kernel.rest.strict_json import load_json

_JSON: Final = "application/json"
#: Returns a body as JSON, in a tenth of the framework's time.
encode: Final = msgspec.json.Encoder(enc_hook=JSONEncoder().default).encode


class FastJSONRenderer(JSONRenderer):
    """JSON by ``encode``."""

    def render(self, data: Any, *_args: object, **_options: object) -> bytes:  # noqa: ANN401 - whatever JSON holds
        """Return the encoded body."""
        return b"" if data is None else encode(data)


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
        caller = self.plain_caller(request.META)
        if caller is None:
            return super().initialize_request(request, *args, **kwargs)
        return FastRequest(request, authenticators=(caller,), negotiator=self.get_content_negotiator())

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse callers without permission."""
        if isinstance(request, FastRequest):
            self.perform_authentication(request)
            self.check_permissions(request)
        else:
            super().initial(request, *args, **kwargs)

    @classmethod
    def plain_caller(cls, meta: Mapping[str, Any]) -> BearerAuthentication | None:
        """Return which of ``callers`` authenticates a plain request; None: the framework must decide.

        A plain request, by its headers, POSTs JSON with a Content-Length and no encoding, accepts JSON, has a token of
        a caller, and is not of the client, whose version must be compared.
        """
        if (
            meta.get("REQUEST_METHOD") == "POST"
            and meta.get("CONTENT_TYPE") == _JSON
            and meta.get("HTTP_ACCEPT", "*/*") in {"*/*", _JSON}
            and "HTTP_CONTENT_ENCODING" not in meta
            and not meta.get("HTTP_USER_AGENT", "").startswith(CLIENT)
            and "1" <= meta.get("CONTENT_LENGTH", "")[:1] <= "9"
        ):
            for caller in cls.callers:
                if meta.get("HTTP_AUTHORIZATION", "").startswith(f"Bearer {caller.prefix}"):
                    return caller
        return None


class FastAnswer(NamedTuple):
    """A success, answered before the frameworks or by the view."""

    #: None: no content.
    body: Any
    #: As WSGI has it.
    status: str = "200 OK"
    headers: Sequence[tuple[str, str]] = ()

    def response(self) -> Response:
        """Return the same answer in the form of the frameworks."""
        return Response(self.body, status=int(self.status[:3]), headers=dict(self.headers))


class FastView(MachineView):
    """A view whose ordinary requests FastApplication answers before the frameworks, with the same answers."""

    #: Name in the WSGI environment of the error with which ``fast_answer`` refused the request.
    REFUSAL: Final = "wms.refusal"

    #: Matches the whole path.
    fast_path: ClassVar[re.Pattern[str]]
    #: Of ordinary requests.
    fast_body: ClassVar[type[FastSerializer]]
    #: Takes the caller's credential, the values of the valid body, and the groups of the path; checks permission. The
    #: view answers if it returns None, which means that nothing has changed, or raises: it reports a WmsError, and does
    #: the work again after any other error, so the work must be safe to repeat.
    fast_answer: ClassVar[Callable[..., FastAnswer | None]]

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse callers without permission, and requests that ``fast_answer`` has refused."""
        super().initial(request, *args, **kwargs)
        refusal: WmsError | None = request.META.get(self.REFUSAL)
        if refusal is not None:
            raise refusal
