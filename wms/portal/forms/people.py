"""Forms of the pages of people: what to list, suspensions and memberships."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django import forms

from wms.accounts.models import Group, User
from wms.accounts.queries import groups_managed_by
from wms.accounts.services.members import MAX_REASON_LENGTH
from wms.jobs.domain.accounting import Span, Width
from wms.kernel.filters import NameField
from wms.kernel.names import composed, is_one_line

#: {name: (label, length of a bucket, number of buckets)}; the first is the default.
PERIODS: Final[Mapping[str, tuple[str, Width, int]]] = {
    "week": ("last 7 days", Width.DAY, 8),
    "day": ("last 24 hours", Width.HOUR, 25),
    "hour": ("this hour and the last", Width.HOUR, 2),
}


class PeopleForm(forms.Form):
    """Choices of the list of people; a wrong one counts as not made, and the page says what is wrong."""

    name = NameField(
        label="Search",
        max_length=150,
        required=False,
        help_text="Part of the user name, the name or the e-mail address.",
    )
    group = forms.ModelChoiceField(
        Group.objects.none(), label="Group", to_field_name="name", empty_label="all", required=False
    )
    state = forms.ChoiceField(
        label="State", choices=(("", "all"), ("active", "active"), ("suspended", "suspended")), required=False
    )
    used = forms.ChoiceField(
        label="Usage", choices=[(name, label) for name, (label, _, _) in PERIODS.items()], required=False
    )

    def __init__(self, data: Mapping[str, object], *, user: User) -> None:
        super().__init__(data)
        _choose_among_managed(self.fields["group"], user)

    def span(self, *, now: datetime) -> Span:
        """Return the buckets of the chosen period of a validated form: whole ones, the present one last."""
        _, width, number = PERIODS[self.cleaned_data.get("used") or "week"]
        last = width.begin_of(now)
        return Span(width=width, first=last - (number - 1) * width.length, last=last)


class PersonSuspensionForm(forms.Form):
    """A suspension of a person, or its end."""

    suspended = forms.TypedChoiceField(choices=(("yes", "yes"), ("no", "no")), coerce="yes".__eq__)
    reason = forms.CharField(required=False, max_length=MAX_REASON_LENGTH)

    def clean_reason(self) -> str:
        """Return the reason in NFC."""
        reason = composed(self.cleaned_data["reason"])
        if not is_one_line(reason):
            raise forms.ValidationError("Write one line, without control characters.")
        return reason


class MembershipForm(forms.Form):
    """A user name to be put into a group, or to be removed from it."""

    username = NameField(label="User name", max_length=150, help_text="The exact name; letter case counts.")
    group = forms.ModelChoiceField(Group.objects.none(), label="Group", to_field_name="name")

    def __init__(self, data: Mapping[str, object] | None = None, *, user: User) -> None:
        super().__init__(data)
        _choose_among_managed(self.fields["group"], user)

    def clean_username(self) -> str:
        """Return the name as it is stored."""
        username: str = User.normalize_username(self.cleaned_data["username"])
        User.username_validator(username)
        return username


def _choose_among_managed(field: forms.Field, user: User) -> None:
    if isinstance(field, forms.ModelChoiceField):
        field.queryset = groups_managed_by(user)
