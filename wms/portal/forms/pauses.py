"""The form that pauses matching, or ends a pause."""

from datetime import datetime, timedelta

from django import forms

from wms.portal.forms.confirmed import FormToConfirm
from wms.portal.forms.fields import ReasonField
from wms.portal.forms.sites import DURATIONS

#: {seconds: words}; a pause has an end.
PAUSE_DURATIONS = tuple((seconds, words) for seconds, words in DURATIONS if seconds)


class PauseForm(FormToConfirm):
    """A pause with its reason and duration, or its end."""

    #: The service decides whether it is needed.
    reason = ReasonField(max_length=200, required=False)
    for_s = forms.ChoiceField(choices=PAUSE_DURATIONS, required=False)
    #: Given: the present pause ends.
    end = forms.BooleanField(required=False)

    def reason_and_end(self, *, now: datetime) -> tuple[str, datetime | None]:
        """Return the reason and the end of the pause of a valid form; None: it ends now."""
        if self.cleaned_data["end"]:
            return "", None
        return self.cleaned_data["reason"], now + timedelta(seconds=int(self.cleaned_data["for_s"] or 0))
