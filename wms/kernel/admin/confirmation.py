"""Forms that save what would stop jobs only when that is confirmed."""

from collections.abc import Iterable
from typing import TypeVar

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import Model

from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.consequences import Consequence

M = TypeVar("M", bound=Model)


class _Boxes(forms.CheckboxSelectMultiple):
    """Boxes to tick; without any, the row is hidden."""

    @property
    def is_hidden(self) -> bool:
        """Return whether there is nothing to tick."""
        return not self.choices


class _ConfirmedField(forms.MultipleChoiceField):
    """The sentences that were ticked; what there is to tick is known only when the other fields are valid."""

    widget = _Boxes

    def validate(self, value: object) -> None:
        """Accept all: sentences that are no longer true confirm nothing."""


class ConfirmedForm(GenericModelForm[M]):
    """A form whose row is saved only when each of its consequences was ticked; the history keeps a reason."""

    confirmed = _ConfirmedField(label="Is this meant?", required=False)
    reason = forms.CharField(
        max_length=200, required=False, widget=AdminTextInputWidget, help_text="Why; the history keeps it."
    )

    def consequences(self) -> Iterable[Consequence]:
        """Return what saving ``instance`` would stop; all fields are valid."""
        raise NotImplementedError

    def _post_clean(self) -> None:
        # NB: Django's hook after the instance has the values of the form; there is no public one.
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.errors or not self.has_changed():
            return
        there = {each.sentence: str(each) for each in self.consequences()}
        boxes = self.fields["confirmed"]
        if isinstance(boxes, _ConfirmedField) and not there.keys() <= {*self.cleaned_data["confirmed"]}:
            boxes.choices = list(there.items())
            self.add_error("confirmed", "Nothing was saved. Tick what is meant, and save again.")
            return
        # For the security log, which must not take up any other text that was sent.
        self.cleaned_data["confirmed"] = list(there)
