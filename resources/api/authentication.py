"""Authentication of sites: by a token that was issued here or set by the configuration file."""

from dataclasses import dataclass

from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from resources.domain.enums import SiteTokenPurpose
from resources.queries import visible_sites
from resources.services.site_tokens import SITE_TOKEN_PREFIX
from wms.accounts.domain import USER_TOKEN_PREFIX
from wms.kernel.rest import BearerAuthentication
from wms.kernel.rest.authentication import bearer_token
from wms.kernel.tokens import PREFIXES

#: Prefixes of other tokens. Tokens of sites may have any other text, because a configuration file may set any.
OTHER_PREFIXES = (USER_TOKEN_PREFIX, *PREFIXES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePrincipal:
    """The calling site; ``request.user`` of its requests."""

    site_id: int
    site_name: str
    is_authenticated: bool = True
    is_active: bool = True

    def __str__(self) -> str:
        return f"site {self.site_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCredential:
    """The token of the calling site; ``request.auth`` of its requests."""

    token_id: int
    site_id: int
    site_name: str
    purpose: SiteTokenPurpose


class SiteTokenAuthentication(BearerAuthentication):
    """A site's token, looked up by its SHA-256.

    NB: it comes after the classes of all other tokens, because it looks up any text without a known prefix; unknown
    texts are left to the class after it, which refuses them.
    """

    prefix = SITE_TOKEN_PREFIX
    scheme_name = "SiteToken"
    scheme_description = "Token of a site, from `wms-server site_token SITE` or the configuration file."

    def authenticate(self, request: Request) -> tuple[SitePrincipal, SiteCredential] | None:
        """Return (principal, credential), or None if the request carries no token of a site.

        Raises:
            AuthenticationFailed: a token that was issued here is unknown now, revoked or expired.
        """
        token = bearer_token(request)
        if token is None or token.startswith(OTHER_PREFIXES):
            return None
        row = visible_sites.site_token(token)
        if row is not None:
            credential = SiteCredential(
                token_id=row.pk,
                site_id=row.site_id,
                site_name=row.site.name,
                purpose=SiteTokenPurpose(row.purpose),
            )
            return SitePrincipal(site_id=row.site_id, site_name=row.site.name), credential
        if token.startswith(self.prefix):
            sentence = "This token of a site is unknown or revoked, or has expired; ask an operator for a new one."
            raise AuthenticationFailed(sentence, code="invalid_token")
        return None
