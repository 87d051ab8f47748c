"""The form of the log-in."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.utils import timezone

from wms.accounts import services
from wms.kernel.addresses import client_address
from wms.kernel.errors import TooManyError, WmsError


class LogInForm(AuthenticationForm):
    """Name and password, checked by the same service as the API's log-in."""

    #: Seconds until the next attempt is allowed; None: log-ins are not delayed.
    retry_after_s: int | None = None

    def clean(self) -> dict[str, Any]:
        """Log the user in, or refuse with a sentence that does not show whether the name exists."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username is None or not password:
            return self.cleaned_data
        if self.request is None:
            raise ValueError("the form needs a request")
        try:
            self.user_cache = services.log_in(
                username=username,
                password=password,
                address=client_address(self.request),
                device=services.known_device(self.request.COOKIES, username=username),
                now=timezone.now(),
            )
        except WmsError as error:
            if isinstance(error, TooManyError):
                self.retry_after_s = error.retry_after_s
            raise ValidationError(error.detail) from error
        return self.cleaned_data
