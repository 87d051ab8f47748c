"""Forms whose consequences their senders confirm."""

from collections.abc import Sequence

from django import forms
from django.http import QueryDict
from django.utils.text import capfirst

from wms.kernel.consequences import ConfirmationNeededError
from wms.portal.forms.fields import ReasonField


class FormToConfirm(forms.Form):
    """A form whose consequences its sender confirms, with a reason for the history."""

    reason = ReasonField(required=False, max_length=200, label="Reason", help_text="Why; the history keeps it.")

    #: In words with numbers; empty: nothing is to be confirmed.
    consequence = ""
    #: Sentences that confirm it.
    to_confirm: Sequence[str] = ()

    @property
    def confirmed(self) -> list[str]:
        """Return the sentences that the sender has confirmed."""
        return self.data.getlist("confirmed") if isinstance(self.data, QueryDict) else []

    def add_refusal(self, errors: dict[str, list[str]]) -> None:
        """Add the errors of the service, by its fields."""
        for field, sentences in errors.items():
            self.add_error(field if field in self.fields else None, [*map(capfirst, sentences)])

    def ask_to_confirm(self, error: ConfirmationNeededError) -> None:
        """Show the consequences, and boxes by which they are confirmed."""
        self.consequence, self.to_confirm = error.detail, error.errors["confirmed"]
