"""The form that drains or kills pilots."""

from typing import Final

from django import forms

from pilots.services.bulk import PilotAction
from wms.portal.forms.fields import ReasonField

#: Characters of a reason.
MOST_REASON: Final = 200
#: Growth of the number of selected pilots, since it was shown, up to which an action is not asked back again.
_GROWTH: Final = 0.01


class PilotActionForm(forms.Form):
    """What is done, and why."""

    action = forms.ChoiceField(choices=[(action, action) for action in PilotAction])
    reason = ReasonField(max_length=MOST_REASON)
    #: Number of pilots that the question named.
    shown = forms.IntegerField(min_value=0, required=False)

    def is_for(self, pilots: int) -> bool:
        """Return whether the question named about as many pilots as there are now; if not, the form says so."""
        shown = self.cleaned_data["shown"] or 0
        if pilots <= shown * (1 + _GROWTH):
            return True
        self.add_error(
            None, f"Nothing was done: {pilots:,} pilots are selected now instead of {shown:,}. Confirm again."
        )
        return False
