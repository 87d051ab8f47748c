"""Heartbeats that are as nearly all are: answered before anything else is asked of a request.

Thousands of pilots send one every 30 s. Two thirds of what one cost were the ways of two frameworks to a view that has
one thing to do. The view (matching.api.views.HeartbeatView) is what is documented; its answer is the same.
"""

import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from rest_framework.exceptions import APIException

from matching.api.authentication import JobCredential, JobTokenAuthentication
from matching.api.permissions import is_holder
from matching.api.renewal import renewed_token
from matching.api.serializers import HeartbeatIn, UsageIn, answer_out
from matching.services import leases
from pilots.api.authentication import PilotCredential, PilotTokenAuthentication
from wms.kernel.errors import WmsError
from wms.kernel.rest import bearer_token, load_json
from wms.kernel.rest.machines import is_plain

_PATH: Final = re.compile(r"/api/matches/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/heartbeat/")
_CALLERS: Final = (JobTokenAuthentication(), PilotTokenAuthentication())


class PlainHeartbeats:
    """Answers plain requests to renew an open lease, by who holds it, without orders obeyed.

    Everything else, whatever is wrong with a request included, goes on to the view as if this were not there.

    NB: below this in the settings, what is to see every request does not see these.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        address = _PATH.fullmatch(request.path)
        if address is None or not is_plain(request) or request.META.get("QUERY_STRING"):
            return self.get_response(request)
        request.get_host()  # refuses names that are not ours
        try:
            answer = _answer(request, UUID(address[1]))
        except UnreadablePostError as error:
            raise BadRequest("The request broke off.") from error
        except (WmsError, APIException, SuspiciousOperation):
            answer = None  # to be said by the view
        return answer or self.get_response(request)


def _answer(request: HttpRequest, match_id: UUID) -> HttpResponse | None:
    """Return the answer to a heartbeat; None, and nothing has changed, if it is not an ordinary one."""
    credential = _credential_of(request)
    if credential is None or not is_holder(credential, match_id):
        return None
    values = HeartbeatIn.plainly(load_json(request.body))
    if values is None or values.get("acknowledged"):
        return None
    renewed = leases.renew(match_id, usage=UsageIn.usage_of(values), std_output=values.get("std_output"))
    if renewed is None:
        return None
    body = msgspec.json.encode(answer_out(renewed, token=renewed_token(credential, match_id)))
    # As the framework sets them.
    headers = {"Allow": "POST, OPTIONS", "Content-Length": str(len(body))}
    return HttpResponse(body, content_type="application/json", headers=headers)


def _credential_of(request: HttpRequest) -> JobCredential | PilotCredential | None:
    token = bearer_token(request)
    for caller in _CALLERS:
        if token is not None and token.startswith(caller.prefix):
            _, credential = caller.principal_of(token)
            return credential
    return None
