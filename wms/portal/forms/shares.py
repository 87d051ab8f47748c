"""The form above the shares of a VO, for its managers."""

from collections.abc import Mapping

from django import forms

from wms.accounts.models import VO, User


class SharesForm(forms.Form):
    """The VO whose groups are shown side by side; a wrong one counts as not chosen."""

    vo = forms.ModelChoiceField(VO.objects.none(), label="VO", to_field_name="name", empty_label=None, required=False)

    def __init__(self, data: Mapping[str, object], *, user: User) -> None:
        super().__init__(data)
        self._managed = VO.objects.managed_by(user).order_by("name")
        field = self.fields["vo"]
        if isinstance(field, forms.ModelChoiceField):
            field.queryset = self._managed

    def chosen_vo(self) -> VO | None:
        """Return the chosen VO, or the first that the user manages; None: the user manages none."""
        self.is_valid()
        return self.cleaned_data.get("vo") or self._managed.first()
