"""Adapters of allauth: encrypted secrets, no mail, no sign-up, and the brake's client address."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from wms.accounts.models import User
from wms.accounts.services.second_factors import has_second_factor
from wms.kernel import secrets
from wms.kernel.addresses import client_address


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # the package has no types
    """Log-in, and the repeated proof of identity before sensitive actions."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's signature
        """Return False: only managers and operators make accounts."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address."""
        return client_address(request)

    def send_notification_mail(self, *_args: object, **_kwargs: object) -> None:
        """Send nothing: the event is in the security log."""

    def get_reauthentication_methods(self, user: User | AnonymousUser) -> list[dict[str, Any]]:
        """Return the methods by which *user* proves its identity; with a second factor, the password is not enough."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if not isinstance(user, User) or not has_second_factor(user):
            return methods
        return [method for method in methods if method["id"] != "reauthenticate"]


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # the package has no types
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
