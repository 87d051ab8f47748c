"""The form above the table of the accounting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from django import forms

from resources.models import Site
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.accounting import ReportKey
from wms.jobs.queries.accounting import NARROWED_BY
from wms.kernel.filters import NameField
from wms.portal.forms.plots import DateInput

_KEYS: Final = (
    (ReportKey.GROUP, "group"), (ReportKey.USER, "user"), (ReportKey.SITE, "site"), (ReportKey.JOB_TYPE, "job type"),
    (ReportKey.MONTH, "month"), (ReportKey.COUNTRY, "country"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportChoice:
    """The choices of the reader."""

    keys: Sequence[ReportKey]
    since: date | None
    until: date | None
    narrowed: Mapping[str, str]


class ReportForm(forms.Form):
    """Choices of the page of accounting; a wrong or empty one counts as not made, and the page says what is wrong."""

    by = forms.ChoiceField(label="By", choices=_KEYS, required=False)
    and_by = forms.ChoiceField(label="and by", choices=(("", "nothing else"), *_KEYS), required=False)
    since = forms.DateField(label="From", widget=DateInput, required=False)
    until = forms.DateField(label="to", widget=DateInput, required=False)
    vo = forms.ModelChoiceField(VO.objects.none(), label="VO", to_field_name="name", empty_label="all", required=False)
    group = forms.ModelChoiceField(
        Group.objects.none(), label="Group", to_field_name="name", empty_label="all", required=False
    )
    user = NameField(label="User", max_length=150, required=False)
    site = forms.ModelChoiceField(
        Site.objects.none(), label="Site", to_field_name="name", empty_label="all", required=False
    )
    type = NameField(label="Job type", max_length=255, required=False)

    def __init__(self, data: Mapping[str, object], *, user: User) -> None:
        super().__init__(data)
        choices = {
            "vo": VO.objects.visible_to(user),
            "group": Group.objects.visible_to(user),
            "site": Site.objects.visible_to(user),
        }
        for name, rows in choices.items():
            field = self.fields[name]
            if isinstance(field, forms.ModelChoiceField):
                field.queryset = rows.order_by("name")

    def clean(self) -> dict[str, object]:
        """Return the values; a period that ends before it begins is none."""
        values = super().clean() or {}
        if values.get("since") and values.get("until") and values["until"] < values["since"]:
            self.add_error("until", "The last day is before the first.")
        return values

    def choice(self) -> ReportChoice:
        """Return what to show."""
        self.is_valid()
        values = self.cleaned_data
        chosen = [values.get("by") or ReportKey.GROUP, values.get("and_by")]
        return ReportChoice(
            keys=[ReportKey(key) for key in dict.fromkeys(chosen) if key],
            since=values.get("since"),
            until=values.get("until"),
            narrowed={name: str(values[name]) for name in NARROWED_BY if values.get(name)},
        )
