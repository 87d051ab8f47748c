"""Forms of the log-in and of second factors, with our log-in delay in place of allauth's limits."""

from allauth.account.forms import ReauthenticateForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as ReauthenticateByCodeForm
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from wms.accounts import services
from wms.accounts.models import User
from wms.accounts.services.second_factors import use_code
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time
from wms.kernel.errors import TooManyError, WmsError


class _Code:
    cleaned_data: dict[str, str]
    user: User

    def clean_code(self) -> str:
        """Accept the code, which cannot be used again, or refuse it."""
        code, user = self.cleaned_data["code"], self.user
        device = services.known_device(context.request.COOKIES, username=user.username)
        try:
            self.authenticator = use_code(user, code, device=device, now=current_time())
        except WmsError as error:
            raise ValidationError(error.detail) from error
        self.authenticator.user = user
        return code


class CodeForm(_Code, AuthenticateForm):
    """A code after the password."""


class CodeAgainForm(_Code, ReauthenticateByCodeForm):
    """A code before a sensitive action."""


class PasswordAgainForm(ReauthenticateForm):
    """The password before a sensitive action."""

    def clean_password(self) -> str:
        """Check the password, under the log-in delay."""
        password: str = self.cleaned_data["password"]
        request = context.request
        username = self.user.username
        try:
            services.log_in(
                username=username,
                password=password,
                address=client_address(request),
                device=services.known_device(request.COOKIES, username=username),
                now=current_time(),
            )
        except WmsError as error:
            raise ValidationError(error.detail) from error
        return password


class LogInForm(AuthenticationForm):
    """Name and password, checked by the same service as the API's log-in."""

    #: Seconds until the next attempt is allowed; None: log-ins are not delayed.
    retry_after_s: int | None = None

    def clean(self) -> dict[str, object]:
        """Log the user in, or refuse with a sentence that does not show whether the name exists."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username is None or not password:
            return self.cleaned_data
        if self.request is None:
            raise ValueError("the form needs a request")
        now = current_time()
        try:
            self.user_cache = services.log_in(
                username=username,
                password=password,
                address=client_address(self.request),
                device=services.known_device(self.request.COOKIES, username=username),
                waited_device=services.waited_device(self.request.COOKIES, username=username, now=now),
                now=now,
            )
        except WmsError as error:
            if isinstance(error, TooManyError):
                self.retry_after_s = error.retry_after_s
            raise ValidationError(error.detail) from error
        return self.cleaned_data
