"""Authentication of users: by a bearer token, or by the portal's session."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from wms.accounts import queries, services
from wms.accounts.domain import USER_TOKEN_PREFIX, TokenScope
from wms.accounts.models import User
from wms.accounts.services.second_factors import is_fresh, last_log_in
from wms.kernel.clock import current_time
from wms.kernel.rest import BearerAuthentication, has_bearer_token
from wms.kernel.time_texts import duration
from wms.wire.protocol import API_V1


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential:
    """The token that authenticated a user; ``request.auth`` of the request."""

    token_id: int
    scope: TokenScope
    issued_at: datetime


class InsufficientScopeError(PermissionDenied):
    """The request exceeds the scope of the token."""

    default_code = "insufficient_scope"


class FreshLogInNeededError(PermissionDenied):
    """The last log-in of the caller is too old for the request."""

    default_code = "fresh_log_in_needed"


class UserTokenAuthentication(BearerAuthentication):
    """A user's token, looked up by its SHA-256.

    The scope of a token is checked only here, before any view runs. Requests that change something need the scope
    ``manage``, unless their view sets another in ``token_scope``; so a new view is closed by default. Those of a view
    that sets ``needs_fresh_log_in`` need a token that was issued within WMS_FRESH_LOG_IN_S, too.
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
            FreshLogInNeededError: the token was issued too long ago for the request.
        """
        authenticated: tuple[User, UserCredential] | None = super().authenticate(request)
        if authenticated is not None:
            _refuse_narrower_scope(authenticated[1].scope, request)
            _refuse_old_log_in(authenticated[1].issued_at, request)
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
        credential = UserCredential(token_id=bearer.token_id, scope=bearer.scope, issued_at=bearer.issued_at)
        return bearer.user, credential


def _refuse_narrower_scope(scope: TokenScope, request: Request) -> None:
    needed = getattr(_view_of(request), "token_scope", TokenScope.MANAGE)
    if request.method not in SAFE_METHODS and not scope.includes(needed):
        sentence = f'This token has the scope "{scope}"; this request needs one with the scope "{needed}".'
        raise InsufficientScopeError(sentence)


def _refuse_old_log_in(logged_in_at: datetime | None, request: Request) -> None:
    """Refuse a change that needs a fresh log-in after an older one; None: no log-in is known."""
    if request.method in SAFE_METHODS or not getattr(_view_of(request), "needs_fresh_log_in", False):
        return
    if not is_fresh(logged_in_at, now=current_time()):
        raise FreshLogInNeededError(
            f"This change needs a log-in of the last {duration(settings.WMS_FRESH_LOG_IN_S)}; log in again "
            "(`wms login --scope administer`), and repeat it."
        )


def _view_of(request: Request) -> object:
    return (request.parser_context or {}).get("view")


class PortalSessionAuthentication(SessionAuthentication):
    """The session of the portal; requests that change something must carry its CSRF token.

    NB: it must be the last authentication class: it refuses a bearer token that no other class accepted, rather than
    ignoring it in favour of an open session.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        """Return the user of the session, or None without one.

        Raises:
            AuthenticationFailed: there is a bearer token, of which no other class knows.
            FreshLogInNeededError: the last log-in in the session was too long ago for the request.
        """
        if has_bearer_token(request):
            raise AuthenticationFailed("This is not a token of this system; log in again.", code="invalid_token")
        authenticated = super().authenticate(request)
        if authenticated is None or not isinstance(authenticated[0], User):
            return None
        _refuse_old_log_in(last_log_in(request, authenticated[0]), request)
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
