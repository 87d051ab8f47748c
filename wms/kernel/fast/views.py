"""Views of machines (docs/architecture.md, Answering machines fast)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from wms.kernel.errors import WmsError
from wms.kernel.fast.serializers import FastSerializer
from wms.kernel.middleware import CLIENT
from wms.kernel.rest.authentication import BearerAuthentication

_JSON: Final = "application/json"
#: Returns a body as JSON, in a tenth of the framework's time.
encode: Final = msgspec.json.Encoder(enc_hook=JSONEncoder().default).encode


class FastAnswer(NamedTuple):
    """A success, answered before the frameworks or by the view."""

    #: None: no content.
    body: object
    #: As WSGI has it.
    status: str = "200 OK"
    headers: Sequence[tuple[str, str]] = ()

    def response(self) -> Response:
        """Return the same answer in the form of the frameworks."""
        return Response(self.body, status=int(self.status[:3]), headers=dict(self.headers))


class FastView(APIView):
    """A view whose plain requests FastApplication answers before the frameworks, by the same function."""

    #: Name in the WSGI environment of the error with which ``fast_answer`` refused the request.
    REFUSAL: Final = "wms.refusal"

    #: Authentication classes whose tokens, by their prefix, make a request plain.
    callers: ClassVar[tuple[BearerAuthentication, ...]]
    #: Matches the whole path.
    fast_path: ClassVar[re.Pattern[str]]
    fast_body: ClassVar[type[FastSerializer]]
    #: Takes the caller's credential, the values of the valid body, and the groups of the path; checks permission, and
    #: does the work. The view reports a WmsError that it raises, and does the work again after any other error, so the
    #: work must be safe to repeat.
    fast_answer: ClassVar[Callable[..., FastAnswer]]

    @classmethod
    def plain_caller(cls, meta: Mapping[str, Any]) -> BearerAuthentication | None:
        """Return which of ``callers`` authenticates a plain request; None: the frameworks must decide.

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

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse callers without permission, and requests that ``fast_answer`` has refused."""
        super().initial(request, *args, **kwargs)
        refusal: WmsError | None = request.META.get(self.REFUSAL)
        if refusal is not None:
            raise refusal

    def respond(self, request: Request, *groups: str) -> Response:
        """Return the answer to a request that has come to the view.

        Args:
            request: of a caller with permission.
            groups: of the path.
        """
        return self.fast_answer(request.auth, self.fast_body.checked(request.data), *groups).response()
