"""Authentication of users: by a bearer token, or by the portal's session."""

from dataclasses import dataclass

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from wms.accounts import queries, services
from wms.accounts.domain import USER_TOKEN_PREFIX, TokenScope
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.rest import BearerAuthentication, has_bearer_token
from wms.wire.protocol import API_V1


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential:
    """The token that authenticated a user; ``request.auth`` of the request."""

    token_id: int
    scope: TokenScope


class InsufficientScopeError(PermissionDenied):
    """The request exceeds the scope of the token."""

    default_code = "insufficient_scope"


class UserTokenAuthentication(BearerAuthentication):
    """A user's token, looked up by its SHA-256.

    The scope of a token is checked only here, before any view runs. Requests that change something need the scope
    ``manage``, unless their view sets another in ``token_scope``; so a new view is closed by default.
    """

    prefix = USER_TOKEN_PREFIX
    scheme_name = "UserToken"
    scheme_description = (
        f"Token of a user, from POST {API_V1}auth/token/, the portal or `wms-server token USER`. Its scope is `read` "
        "(GET only), `submit` (also: submit jobs, upload sandboxes, act on the user's own jobs), `manage` (whatever "
        "the user may do, but for the configuration) or `administer` (that too); a request beyond it is 403 "
        "`insufficient_scope`."
    )

    def authenticate(self, request: Request) -> tuple[User, UserCredential] | None:
        """Return the user and the credential, or None if the request carries no token of a user.

        Raises:
            AuthenticationFailed: see ``principal_of``.
            InsufficientScopeError: the scope does not allow the request.
        """
        authenticated: tuple[User, UserCredential] | None = super().authenticate(request)
        if authenticated is not None:
            _refuse_narrower_scope(authenticated[1].scope, request)
        return authenticated

    def principal_of(self, token: str) -> tuple[User, UserCredential]:
        """Return the user and the credential.

        Raises:
            AuthenticationFailed: the token is unknown, expired or revoked, or its user is suspended.
        """
        now = current_time()
        bearer = queries.bearer_of(token, now=now)
        if bearer is None:
            sentence = f"This token is unknown, expired or revoked; log in again (POST {API_V1}auth/token/)."
            raise AuthenticationFailed(sentence, code="invalid_token")
        services.note_use(bearer, now=now)
        bearer.user.acts_on_own_jobs_only = bearer.scope is TokenScope.SUBMIT
        return bearer.user, UserCredential(token_id=bearer.token_id, scope=bearer.scope)


def _refuse_narrower_scope(scope: TokenScope, request: Request) -> None:
    view = (request.parser_context or {}).get("view")
    needed = getattr(view, "token_scope", TokenScope.MANAGE)
    if request.method not in SAFE_METHODS and not scope.includes(needed):
        sentence = f'This token has the scope "{scope}"; this request needs one with the scope "{needed}".'
        raise InsufficientScopeError(sentence)


class PortalSessionAuthentication(SessionAuthentication):
    """The session of the portal; requests that change something must carry its CSRF token.

    NB: it must be the last authentication class: it refuses a bearer token that no other class accepted, rather than
    ignoring it in favour of an open session.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        """Return the user of the session, or None without one."""
        if has_bearer_token(request):
            raise AuthenticationFailed("This is not a token of this system; log in again.", code="invalid_token")
        authenticated = super().authenticate(request)
        if authenticated is None or not isinstance(authenticated[0], User):
            return None
        return authenticated[0], None

    def authenticate_header(self, _request: Request) -> str | None:
        """Return the WWW-Authenticate header of a 401."""
        return 'Bearer realm="wms"'

    def enforce_csrf(self, request: Request) -> None:
        """Refuse a request that another web site may have triggered.

        Raises:
            PermissionDenied: the CSRF token is missing or wrong.
        """
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            sentence = "The CSRF token of the session is missing or wrong; reload the page, or use a bearer token."
            raise PermissionDenied(sentence, code="csrf_failed") from error


class PortalSessionScheme(OpenApiAuthenticationExtension):
    """The portal's session in the OpenAPI schema."""

    target_class = PortalSessionAuthentication
    name = "PortalSession"

    def get_security_definition(self, _auto_schema: object) -> dict[str, str]:
        """Return the definition of the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}
