"""Adapters of allauth: encrypted secrets, no mail, no sign-up, the delay's client address, and log-ins by providers."""

from urllib.parse import urlencode

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.signals import social_account_added
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import resolve_url

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.oidc.configuration import providers
from wms.accounts.oidc.connection import ProviderSession
from wms.accounts.oidc.flow import FlowProvider, flow_provider
from wms.accounts.oidc.identity import ProviderIdentity
from wms.accounts.security_log import record
from wms.accounts.services import second_factors
from wms.accounts.services.access import SuspendedError
from wms.accounts.services.people import confirm_memberships, log_in_by_provider
from wms.kernel import secrets
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time


class AccountAdapter(DefaultAccountAdapter):
    """Log-in, and the repeated proof of identity before sensitive actions."""

    def is_open_for_signup(self, _request: HttpRequest) -> bool:
        """Return False: only managers and operators make accounts."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address."""
        return client_address(request)

    def send_notification_mail(self, *_args: object, **_kwargs: object) -> None:
        """Send nothing: the event is in the security log."""

    def get_reauthentication_methods(self, user: User | AnonymousUser) -> list[dict[str, object]]:
        """Return the methods by which *user* proves its identity; with a second factor, the password is not enough."""
        methods: list[dict[str, object]] = super().get_reauthentication_methods(user)
        if not isinstance(user, User) or not second_factors.has_second_factor(user):
            return methods
        return [method for method in methods if method["id"] != "reauthenticate"]


class SecondFactorAdapter(DefaultMFAAdapter):
    """Second factors."""

    def encrypt(self, text: str) -> str:
        """Return *text* encrypted under this installation's secret key."""
        return secrets.encrypt(text).decode("ascii")

    def decrypt(self, encrypted_text: str) -> str:
        """Return the plain text.

        Raises:
            UndecipherableError: encrypted under another key.
        """
        return secrets.decrypt(encrypted_text.encode("ascii"))

    def build_totp_svg(self, url: str) -> str:
        """Return the QR code without the XML declaration, to embed it in a page."""
        return str(super().build_totp_svg(url)).partition("?>")[2].strip()

    def send_notification_mail(self, *_args: object, **_kwargs: object) -> None:
        """Send nothing: the event is in the security log."""


class ProviderAdapter(DefaultSocialAccountAdapter):
    """Log-ins by the providers of WMS_OIDC_PROVIDERS; people are known by issuer and subject only (ADR 67)."""

    def list_providers(self, request: HttpRequest | None) -> list[FlowProvider]:
        """Return the configured providers."""
        return [flow_provider(request, provider_id) for provider_id in providers()]

    def get_provider(self, request: HttpRequest | None, provider: str, client_id: str | None = None) -> FlowProvider:  # noqa: ARG002 - allauth's signature
        """Return a configured provider, by its id or issuer.

        Raises:
            SocialApp.DoesNotExist: there is none.
        """
        return flow_provider(request, provider)

    def get_requests_session(self) -> ProviderSession:
        """Return the session by which allauth asks a provider."""
        return ProviderSession()

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Find or make the user of a log-in; the connection of an account goes on in allauth."""
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            return
        # A new session key: whoever knew the old one has no access to the new session.
        request.session.cycle_key()
        now = current_time()
        try:
            account = log_in_by_provider(sociallogin.identity, address=client_address(request), now=now)
        except SuspendedError as error:
            raise ImmediateHttpResponse(refuse(request, error.detail)) from error
        sociallogin.account, sociallogin.user = account, account.user
        second_factors.note_log_in_by_provider(request, now=now)

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: FlowProvider,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: object = None,  # noqa: ARG002 - allauth's signature
    ) -> None:
        """Record the refusal, and send the browser to the page where the log-in began."""
        name = provider.configured.name
        if error == AuthError.CANCELLED:
            sentence = f"The log-in by {name} was cancelled."
        elif exception is None:
            sentence = f"This log-in by {name} has expired, or was begun in another browser; begin it again."
        else:
            sentence = f"The log-in by {name} failed; try again."
        reason = type(exception).__name__ if exception else str(error)
        record_refusal(request, provider, reason=reason)
        raise ImmediateHttpResponse(refuse(request, sentence))

    def get_connect_redirect_url(self, _request: HttpRequest, _account: SocialAccount) -> str:
        """Return the page after the connection of an account."""
        return resolve_url("portal:account")

    def send_notification_mail(self, *_args: object, **_kwargs: object) -> None:
        """Send nothing: the event is in the security log."""


def record_refusal(request: HttpRequest, provider: FlowProvider, *, reason: str) -> None:
    """Record a log-in by a provider that failed."""
    target = f"provider {provider.configured.id}"
    record(SecurityEventKind.LOG_IN_REFUSED, request=request, target=target, reason=reason)


def refuse(request: HttpRequest, sentence: str) -> HttpResponseRedirect:
    """Return the way back to the page where the log-in, or the connection of an account, began."""
    messages.error(request, sentence)
    address = resolve_url(settings.LOGIN_URL)  # which sends whoever is logged in on
    if request.user.is_authenticated:
        address = f"{address}?{urlencode({'next': resolve_url('portal:account')})}"
    return HttpResponseRedirect(address)


def on_connected(*, request: HttpRequest, sociallogin: SocialLogin, **_kwargs: object) -> None:
    """Record that a user has connected an account, and apply its claims."""
    user: User = sociallogin.user
    issuer = sociallogin.account.provider
    record(SecurityEventKind.ACCOUNT_CONNECTED, request=request, target=f"user {user.username}", issuer=issuer)
    # After a password that was asked for on the way back, allauth has forgotten the claims; the next log-in has them.
    identity: ProviderIdentity | None = getattr(sociallogin, "identity", None)
    if identity is not None:
        confirm_memberships(sociallogin.account, identity.groups, now=current_time())


signals.authenticator_added.connect(second_factors.on_added)
signals.authenticator_reset.connect(second_factors.on_added)
signals.authenticator_used.connect(second_factors.on_used)
signals.authenticator_removed.connect(second_factors.on_removed)
social_account_added.connect(on_connected)
