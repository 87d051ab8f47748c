"""Ordinary heartbeats, answered before the request reaches the frameworks (ADR 25).

Thousands of pilots send one every 30 s, and two thirds of its cost were the two frameworks. The documented view is
matching.api.views.HeartbeatView; its answer is the same.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from matching.api.authentication import JobCredential, JobTokenAuthentication
from matching.api.renewal import renewed_token
from matching.api.serializers import HeartbeatIn, UsageIn, answer_out
from matching.services import leases
from pilots.api.authentication import PilotCredential, PilotTokenAuthentication
from wms.kernel.addresses import is_https
from wms.kernel.middleware import NOT_KEPT
from wms.kernel.protocol import API_V1
from wms.kernel.rest import load_json
from wms.kernel.rest.fast_views import is_plain

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PATH: Final = re.compile(re.escape(API_V1) + r"matches/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/heartbeat/")
_CALLERS: Final = (JobTokenAuthentication(), PilotTokenAuthentication())
_OK: Final = f"{HTTPStatus.OK.value} {HTTPStatus.OK.phrase}"
#: As set by the frameworks.
_HEADERS: Final = (
    ("Content-Type", "application/json"),
    ("Cache-Control", NOT_KEPT),
    ("Allow", "POST, OPTIONS"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
)


class FastHeartbeats:
    """Middleware that answers requests to renew an open lease, by its holder, without acknowledged commands.

    All other requests, also invalid ones, go on to the application.
    """

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer the request."""
        address = _PATH.fullmatch(environ["PATH_INFO"])
        if address is None or not is_plain(environ) or environ.get("QUERY_STRING") or not _is_ours(environ):
            return self._application(environ, start_response)
        try:
            answer = _answer(environ["HTTP_AUTHORIZATION"], UUID(address[1]), _body(environ))
        except Exception:  # noqa: BLE001 - a heartbeat may be repeated: the view meets the same error, and reports it
            answer = None
        if answer is None:
            return self._application(environ, start_response)
        start_response(_OK, [*_HEADERS, ("Content-Length", str(len(answer)))])
        return [answer]


def _is_ours(environ: "WSGIEnvironment") -> bool:
    """Return whether the request has a host name of this server, and uses HTTPS where that is required."""
    if settings.WMS_HTTPS and not is_https(environ):
        return False
    domain, _ = split_domain_port(environ.get("HTTP_HOST", ""))
    return validate_host(domain, settings.ALLOWED_HOSTS)


def _body(environ: "WSGIEnvironment") -> bytes:
    """Return the body, which remains readable for the view; empty if it is too long."""
    length = int(environ["CONTENT_LENGTH"])
    if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        return b""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = BytesIO(body)
    return body


def _answer(authorization: str, match_id: UUID, body: bytes) -> bytes | None:
    """Return the answer to a heartbeat; None if it is not an ordinary one: nothing has changed."""
    credential = _credential_of(authorization)
    if credential is None or (isinstance(credential, JobCredential) and credential.match_id != match_id):
        return None
    values = HeartbeatIn.plainly(load_json(body))
    if values is None or values.get("acknowledged"):
        return None
    renewed = leases.renew(
        match_id,
        of=credential.pilot_id if isinstance(credential, PilotCredential) else None,
        usage=UsageIn.usage_of(values),
        std_output=values.get("std_output"),
    )
    if renewed is None:
        return None
    return msgspec.json.encode(answer_out(renewed, token=renewed_token(credential, match_id)))


def _credential_of(authorization: str) -> JobCredential | PilotCredential | None:
    scheme, _, token = authorization.partition(" ")
    for caller in _CALLERS:
        if scheme == "Bearer" and token.startswith(caller.prefix):
            _, credential = caller.principal_of(token)
            return credential
    return None
