"""Who sends a request, by its headers alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.core.handlers.wsgi import WSGIRequest
from django.db import close_old_connections
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request
from rest_framework.settings import api_settings

from wms.kernel.rest import BearerAuthentication, has_bearer_token

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment


def caller_of(environ: "WSGIEnvironment") -> str | None:
    """Return a name for whom a request comes from, the same for all requests with one credential; None: nobody known.

    Tokens of all kinds are read by the classes that the endpoints use, sessions as the portal does. Whether the caller
    may do what the request asks is the endpoint's to say.
    """
    close_old_connections()
    request = WSGIRequest(environ)
    if has_bearer_token(request):
        return environ["HTTP_AUTHORIZATION"] if _has_good_token(request) else None
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    request.session = SessionStore(key)
    return key if get_user(request).is_authenticated else None


def _has_good_token(request: WSGIRequest) -> bool:
    try:
        return any(
            kind().authenticate(Request(request)) is not None
            for kind in _kinds()
            if issubclass(kind, BearerAuthentication)
        )
    except AuthenticationFailed:
        return False
    except PermissionDenied:
        return True  # known; whether its scope is enough, only the view can say


def _kinds() -> Sequence[type[BaseAuthentication]]:
    # The package's types say that these are their names.
    return cast("Sequence[type[BaseAuthentication]]", api_settings.DEFAULT_AUTHENTICATION_CLASSES)
