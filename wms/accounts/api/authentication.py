"""How people are recognised: by a bearer token, or by the portal's session."""

from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from wms.accounts import queries, services
from wms.accounts.domain import USER_TOKEN_PREFIX, TokenScope
from wms.accounts.models import User
from wms.kernel.rest import BearerAuthentication, has_bearer_token


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential:
    """The token that a user came with; ``request.auth`` of such a request."""

    token_id: int
    scope: TokenScope


class InsufficientScopeError(PermissionDenied):
    """The scope of the token does not include what the request does."""

    default_code = "insufficient_scope"


class UserTokenAuthentication(BearerAuthentication):
    """A user's token, looked up by its SHA-256.

    The scope of a token is checked here, and nowhere else, before any view sees the request. Requests that change
    something need the scope ``manage``, unless their view says otherwise in ``token_scope``; so a new view is closed.
    """

    prefix = USER_TOKEN_PREFIX
    scheme_name = "UserToken"
    scheme_description = (
        "Token of a user, from POST /api/auth/token/, the portal or `manage.py token USER`. Its scope is `read` (GET "
        "only), `submit` (also: submit jobs, upload sandboxes, act on the user's own jobs) or `manage` (whatever the "
        "user may do); a request beyond it is 403 `insufficient_scope`."
    )

    def authenticate(self, request: Request) -> tuple[User, UserCredential] | None:
        """Return the user and the credential, or None if the request carries no user's token.

        Raises:
            AuthenticationFailed: as ``principal_of``.
            InsufficientScopeError: the token does not allow this.
        """
        found: tuple[User, UserCredential] | None = super().authenticate(request)
        if found is not None:
            _refuse_narrower_scope(found[1].scope, request)
        return found

    def principal_of(self, token: str) -> tuple[User, UserCredential]:
        """Return the user and the credential.

        Raises:
            AuthenticationFailed: the token is unknown, expired or revoked, or its user is suspended.
        """
        now = timezone.now()
        bearer = queries.bearer_of(token, now=now)
        if bearer is None:
            sentence = "This token is unknown, expired or revoked; log in again (POST /api/auth/token/)."
            raise AuthenticationFailed(sentence, code="invalid_token")
        services.note_use(bearer, now=now)
        bearer.user.acts_on_own_jobs_only = bearer.scope is TokenScope.SUBMIT
        return bearer.user, UserCredential(token_id=bearer.token_id, scope=bearer.scope)


def _refuse_narrower_scope(scope: TokenScope, request: Request) -> None:
    view = (request.parser_context or {}).get("view")
    wanted = getattr(view, "token_scope", TokenScope.MANAGE)
    if request.method not in SAFE_METHODS and not scope.includes(wanted):
        sentence = f'This token has the scope "{scope}"; this request needs one with the scope "{wanted}".'
        raise InsufficientScopeError(sentence)


class PortalSessionAuthentication(SessionAuthentication):
    """The session of the portal; requests that change something must carry its CSRF token.

    NB: it must be the last of the authentication classes: a bearer token that none of the others knew is refused here,
    rather than ignored in favour of a session that happens to be open.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        """Return the user of the session, or None without one."""
        if has_bearer_token(request):
            raise AuthenticationFailed("This is no token of this system; log in again.", code="invalid_token")
        found = super().authenticate(request)  # type: ignore[no-untyped-call,unused-ignore]
        return None if found is None or not isinstance(found[0], User) else (found[0], None)

    def authenticate_header(self, request: Request) -> str | None:  # noqa: ARG002 - the framework's signature
        """Return what a 401 tells the client to send."""
        return 'Bearer realm="wms"'

    def enforce_csrf(self, request: Request) -> None:
        """Refuse a request that another site may have made the browser send.

        Raises:
            PermissionDenied: the CSRF token is missing or wrong.
        """
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            sentence = "The CSRF token of the session is missing or wrong; reload the page, or use a bearer token."
            raise PermissionDenied(sentence, code="csrf_failed") from error


class PortalSessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the package's own hook
    """The portal's session in the OpenAPI schema."""

    target_class = PortalSessionAuthentication
    name = "PortalSession"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:  # noqa: ARG002 - the framework's signature
        """Return the definition of the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}
