"""Forms of a user's own account."""

from collections.abc import Mapping

from django import forms
from django.conf import settings
from django.contrib.auth.forms import PasswordChangeForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from wms.accounts import services
from wms.accounts.domain import MailWhen, TokenScope
from wms.accounts.models import User
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
from wms.kernel.time_texts import duration
from wms.portal.presentation.account import MAIL_IN_WORDS

#: {scope: its label on the page}.
SCOPES_IN_WORDS = {
    TokenScope.READ: "read: see whatever I may see",
    TokenScope.SUBMIT: "submit: also submit jobs, and act on my own jobs",
    TokenScope.MANAGE: "manage: do whatever I may do, but for the configuration",
    TokenScope.ADMINISTER: "administer: also change the configuration, as far as I may",
}


def longest_token_days() -> int:
    """Return the longest lifetime of a token, in days; at least 1."""
    days: int = settings.WMS_USER_TOKEN_S // 86400
    return max(1, days)


class ChangePasswordForm(PasswordChangeForm):
    """The old password, and twice the new one."""

    def __init__(self, user: User, *args: object, request: HttpRequest, **kwargs: object) -> None:
        self.request = request
        super().__init__(user, *args, **kwargs)

    def clean_old_password(self) -> str:
        """Check it under the log-in delay, so that a stolen session cannot be used to guess passwords."""
        password, username = str(self.cleaned_data["old_password"]), self.user.username
        try:
            services.log_in(
                username=username,
                password=password,
                address=client_address(self.request),
                now=current_time(),
                device=services.known_device(self.request.COOKIES, username=username),
            )
        except services.WrongCredentialsError as error:
            raise ValidationError("The old password is wrong.") from error
        except WmsError as error:
            raise ValidationError(error.detail) from error
        return password


class NewTokenForm(forms.Form):
    """The name, scope and lifetime of a new token."""

    name = forms.CharField(max_length=100, help_text="Name of the token, such as that of the computer that uses it.")
    scope = forms.ChoiceField(
        choices=list(SCOPES_IN_WORDS.items()),
        initial=TokenScope.READ,
        help_text="Scope; choose the narrowest that is enough.",
    )

    def __init__(self, data: Mapping[str, object] | None = None, *, is_log_in_fresh: bool) -> None:
        super().__init__(data)
        self._is_log_in_fresh = is_log_in_fresh
        longest = longest_token_days()
        self.fields["days"] = forms.IntegerField(
            label="Valid for, days",
            min_value=1,
            max_value=longest,
            initial=longest,
            help_text=f"At most {longest}. The token is valid until then, or until you revoke it.",
        )

    def clean_scope(self) -> str:
        """Refuse the configuration to a session of an older log-in: its new token would count as a fresh log-in."""
        scope = str(self.cleaned_data["scope"])
        if scope == TokenScope.ADMINISTER and not self._is_log_in_fresh:
            age = duration(settings.WMS_FRESH_LOG_IN_S)
            raise ValidationError(f"This scope needs a log-in of the last {age}: log out, log in, and make the token.")
        return scope


class MailForm(forms.Form):
    """The choice when the user gets mail about submissions."""

    when = forms.ChoiceField(
        label="Send me mail",
        choices=[(when.value, words) for when, words in MAIL_IN_WORDS.items()],
        widget=forms.RadioSelect,
    )

    def chosen(self) -> MailWhen:
        """Return the choice of a valid form."""
        return MailWhen(self.cleaned_data["when"])
