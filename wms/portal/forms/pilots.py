"""The form above the list of pilots."""

from django import forms

from pilots.domain import PilotStatus
from pilots.queries import PilotFilter


class PilotFilterForm(forms.Form):
    """Which pilots are shown; what is empty does not narrow."""

    status = forms.ChoiceField(required=False, choices=[("", "any"), *((status, status) for status in PilotStatus)])
    site = forms.CharField(required=False, max_length=128, help_text="Names are whole ones.")
    ce = forms.CharField(required=False, max_length=128, label="CE")
    queue = forms.CharField(required=False, max_length=128)
    host = forms.CharField(required=False, max_length=255)
    stamp = forms.CharField(required=False, max_length=128, help_text="In the batch system: wms-<stamp>.")

    def filter(self) -> PilotFilter:
        """Return the filter; a field that is wrong does not narrow, its error is shown beside it."""
        self.full_clean()
        return PilotFilter(**{name: value for name, value in self.cleaned_data.items() if value})
