"""Bearer tokens: one authentication class for each kind, selected by the token's prefix."""

from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from wms.kernel.rest.errors import WWW_AUTHENTICATE

#: Characters; no token of this system is longer.
MAX_TOKEN_LENGTH = 4096


class BearerAuthentication(BaseAuthentication):
    """Base of the classes that authenticate one kind of token.

    A token of another kind is left to the other classes; an invalid one of this kind is a 401.
    """

    #: Prefix of tokens of this kind, such as ``wmsu_``.
    prefix: ClassVar[str]
    #: Name and meaning of this kind in the OpenAPI schema, such as ``UserToken``.
    scheme_name: ClassVar[str]
    scheme_description: ClassVar[str]

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return (principal, credential), or None if the request carries no token of this kind."""
        token = bearer_token(request)
        if token is None or not token.startswith(self.prefix):
            return None
        return self.principal_of(token)

    def authenticate_header(self, request: Request) -> str:
        """Return the WWW-Authenticate header of a 401."""
        return WWW_AUTHENTICATE

    def principal_of(self, token: str) -> tuple[Any, Any]:
        """Return (principal, credential) of *token*, which begins with the prefix.

        Raises:
            AuthenticationFailed: the token is not valid; the sentence says what to do about it.
        """
        raise NotImplementedError


def has_bearer_token(request: Request | HttpRequest) -> bool:
    """Return whether the request carries an Authorization header of the scheme Bearer."""
    scheme, _, _ = str(request.META.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    return scheme.lower() == "bearer"


def bearer_token(request: Request | HttpRequest) -> str | None:
    """Return the token of ``Authorization: Bearer <token>``, or None without such a header."""
    return token_in(str(request.META["HTTP_AUTHORIZATION"])) if has_bearer_token(request) else None


def token_in(header: str) -> str:
    """Return the token of an Authorization header of the scheme Bearer.

    Raises:
        AuthenticationFailed: the header contains none, or not exactly one.
    """
    _, _, token = header.strip().partition(" ")
    token = token.strip()
    if not token or len(token) > MAX_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthenticationFailed('The header must read "Authorization: Bearer <token>", with one token.')
    return token
