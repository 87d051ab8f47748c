"""The caller of a request, from its headers alone."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.core.handlers.wsgi import WSGIRequest
from django.db import close_old_connections
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.settings import api_settings

from wms.kernel.handlers import API
from wms.kernel.rest import BearerAuthentication, has_bearer_token
from wms.kernel.tokens import PREFIXES

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

    from django.contrib.auth.base_user import AbstractBaseUser


#: Tokens of pilots and jobs.
_PREFIXES: Final = tuple(PREFIXES.values())
#: Addresses that supervisors and load balancers ask, and those at which sites and new pilots have other tokens.
_OF_MACHINES: Final = ("/healthz", "/readyz", "/metrics", "/pilots/register/", "/advertisements/")


def is_of_machine(environ: "WSGIEnvironment") -> bool:
    """Return whether a request is of a pilot, a job, a site or a supervisor, by its address and its token's kind."""
    path: str = environ["PATH_INFO"]
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
    has_token = path.startswith(API) and scheme.lower() == "bearer" and token.strip().startswith(_PREFIXES)
    return has_token or path.endswith(_OF_MACHINES)


def credential_of(environ: "WSGIEnvironment") -> str:
    """Return the token or session of a request, as it was sent; empty: it has neither."""
    token: str = environ.get("HTTP_AUTHORIZATION", "")
    if token:
        return token
    of_session = f"{settings.SESSION_COOKIE_NAME}="
    cookies = (cookie.strip() for cookie in environ.get("HTTP_COOKIE", "").split(";"))
    return next((cookie for cookie in cookies if cookie.startswith(of_session)), "")


def caller_of(environ: "WSGIEnvironment") -> str | None:
    """Return a name of the caller of a request; None: unknown.

    It is the same for all tokens and sessions of one user, who may have any number of them, and for all requests with
    one token of a pilot, job or site. Tokens are read by the authentication classes of the endpoints, sessions as in
    the portal. Permissions are checked later, by the endpoint.
    """
    close_old_connections()
    # As a GET request: only the view knows which scope the token needs.
    request = WSGIRequest({**environ, "REQUEST_METHOD": "GET"})
    if has_bearer_token(request):
        principal = _principal_of(request)
        if principal is None:
            return None
        return _name_of(principal) if isinstance(principal, get_user_model()) else str(environ["HTTP_AUTHORIZATION"])
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return _name_of(user) if isinstance(user, get_user_model()) else None


def _name_of(user: "AbstractBaseUser") -> str:
    return f"user {user.pk}"


def _principal_of(request: WSGIRequest) -> object:
    """Return the owner of the request's token, or None if the token is not of this system."""
    # The package's types wrongly declare class names.
    kinds = cast("Sequence[type[BaseAuthentication]]", api_settings.DEFAULT_AUTHENTICATION_CLASSES)
    with suppress(AuthenticationFailed):
        for kind in kinds:
            if issubclass(kind, BearerAuthentication) and (found := kind().authenticate(Request(request))):
                return found[0]
    return None
