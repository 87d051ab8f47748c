"""The authorization code flow in a browser: allauth's, with our check of the ID token and a nonce."""

import secrets
from collections.abc import Mapping
from typing import Final

from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import salted_hmac

from wms.accounts.models import User
from wms.accounts.oidc import connection
from wms.accounts.oidc.configuration import OIDCProvider, provider_of_issuer, providers
from wms.accounts.oidc.id_tokens import claims_with_userinfo
from wms.accounts.oidc.identity import identity_of

#: Name of the address to which providers send browsers back.
CALLBACK: Final = "portal:oidc-callback"


class FlowAdapter(OpenIDConnectOAuth2Adapter):
    """Addresses and client authentication of a provider, and the check of its answer."""

    @property
    def configured(self) -> OIDCProvider:
        """The provider as configured."""
        configured: OIDCProvider = self.get_provider().configured
        return configured

    @property
    def openid_config(self) -> Mapping[str, object]:
        """The discovery document."""
        return connection.discovered(self.configured)

    @property
    def basic_auth(self) -> bool:
        """Whether the client authenticates by HTTP Basic."""
        return connection.uses_basic_authentication(self.configured)

    @property
    def access_token_url(self) -> str:
        """The token endpoint."""
        return connection.endpoint(self.configured, "token_endpoint")

    @property
    def authorize_url(self) -> str:
        """The authorization endpoint."""
        return connection.endpoint(self.configured, "authorization_endpoint")

    def get_callback_url(self, request: HttpRequest, _app: SocialApp) -> str:
        """Return the address to which the provider sends the browser back."""
        return request.build_absolute_uri(reverse(CALLBACK, args=[self.configured.id]))

    def complete_login(
        self, request: HttpRequest, _app: SocialApp, _token: object, *, response: Mapping[str, object]
    ) -> SocialLogin:
        """Return the log-in of the person whom the provider has authenticated.

        Raises:
            ProviderTokenRefusedError: the answer is not valid for this log-in.
            ProviderFailedError: the provider does not answer.
        """
        nonce = _nonce_of(request.GET.get("state", ""))  # the state is checked before, against the session
        claims = claims_with_userinfo(self.configured, response, nonce=nonce)
        return self.get_provider().sociallogin_from_response(request, claims)


class FlowProvider(OpenIDConnectProvider):
    """A configured provider; its accounts are stored by issuer and subject."""

    oauth2_adapter_class = FlowAdapter

    def __init__(self, request: HttpRequest | None, configured: OIDCProvider) -> None:
        self.configured = configured
        app = SocialApp(
            provider=OpenIDConnectProvider.id,
            provider_id=configured.id,
            name=configured.name,
            client_id=configured.client_id,
            secret=configured.client_secret,
            settings={"oauth_pkce_enabled": True},
        )
        super().__init__(request, app=app)

    @property
    def sub_id(self) -> str:
        """The issuer, by which accounts and log-ins that are in progress are stored."""
        return self.configured.issuer

    def get_oauth2_adapter(self, request: HttpRequest) -> FlowAdapter:
        """Return the adapter of a request."""
        return FlowAdapter(request, self.configured.id)

    def begin(self, request: HttpRequest, *, process: str, next_url: str) -> str:
        """Begin a log-in, or the connection of an account, and return the provider's address for the browser.

        Args:
            request: its session holds state and PKCE verifier.
            process: of allauth's AuthProcess.
            next_url: page after a log-in; empty: the first one.

        Raises:
            ProviderFailedError: the provider does not answer.
        """
        state = secrets.token_urlsafe(32)
        response: HttpResponse = self.redirect(
            request,
            process,
            next_url=next_url or None,
            state_id=state,
            scope=list(self.configured.scopes),
            auth_params={"nonce": _nonce_of(state)},
        )
        return str(response.headers["Location"])

    def sociallogin_from_response(self, _request: HttpRequest, response: Mapping[str, object]) -> SocialLogin:
        """Return the log-in of the person of these verified claims."""
        identity = identity_of(self.configured, response)
        account = SocialAccount(
            provider=self.configured.issuer, uid=identity.subject, extra_data={"name": identity.preferred_name}
        )
        login = SocialLogin(user=User(), account=account, provider=self)
        login.identity = identity
        return login

    def serialize(self) -> dict[str, str]:
        """Return what ``deserialize`` finds the provider by, between password and second factor."""
        return {"id": self.configured.issuer}


def flow_provider(request: HttpRequest | None, name: str) -> FlowProvider:
    """Return the configured provider with this id or issuer.

    Raises:
        SocialApp.DoesNotExist: there is none.
    """
    configured = providers().get(name) or provider_of_issuer(name)
    if configured is None:
        raise SocialApp.DoesNotExist
    return FlowProvider(request, configured)


def finish(request: HttpRequest, provider: FlowProvider) -> HttpResponse:
    """Answer the browser that the provider has sent back.

    Raises:
        WmsError: the provider's answer is not valid, or there is none.
    """
    response: HttpResponse = OAuth2CallbackView.adapter_view(FlowAdapter(request, provider.configured.id))(request)
    return response


def _nonce_of(state: str) -> str:
    """Return the nonce of a log-in, which the session need not hold: only this server can derive it from the state."""
    return salted_hmac("wms.accounts.oidc.flow.nonce", state, algorithm="sha256").hexdigest()
