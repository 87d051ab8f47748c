"""Forms of the page of a site: states and downtimes of the site, its computing elements and queues."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Self

from django import forms

from resources.domain.enums import ResourceState, SiteTokenPurpose
from resources.models import Downtime
from resources.services.downtimes import DowntimeError
from wms.kernel.names import composed
from wms.kernel.time_texts import duration
from wms.portal.forms.confirmed import FormToConfirm
from wms.portal.forms.fields import ReasonField

_DAY_S: Final = 86_400
#: {seconds: words}; empty: no end.
DURATIONS: Final = (
    *((str(seconds), duration(seconds)) for seconds in (2 * 3600, 8 * 3600)),
    (str(_DAY_S), "1 d"),
    (str(3 * _DAY_S), "3 d"),
    (str(7 * _DAY_S), "1 week"),
    ("", "no end"),
)


class PlaceStateForm(FormToConfirm):
    """The state, its reason and its duration, and which place of a site it is for."""

    #: Empty: the site.
    ce = forms.CharField(required=False)
    #: Empty: the computing element.
    queue = forms.CharField(required=False)
    state = forms.ChoiceField(choices=[(state, state) for state in ResourceState])
    #: The service decides whether it is needed, and how long it may be.
    reason = ReasonField(required=False)
    for_s = forms.ChoiceField(choices=DURATIONS, required=False)
    #: Whether the page of the place is shown next, and not that of its site.
    stay = forms.BooleanField(required=False)

    def state_and_end(self, *, now: datetime) -> tuple[ResourceState, datetime | None]:
        """Return the state of a valid form, and its end; None: none, as always of active."""
        state, for_s = ResourceState(self.cleaned_data["state"]), self.cleaned_data["for_s"]
        has_end = for_s and state is not ResourceState.ACTIVE
        return state, now + timedelta(seconds=int(for_s)) if has_end else None


class SiteTokenForm(forms.Form):
    """The purpose of a new token of a site, and its end."""

    purpose = forms.ChoiceField(
        choices=[
            (SiteTokenPurpose.REGISTER, "register: pilots of the site register with it"),
            (SiteTokenPurpose.ADVERTISE, "advertise: gateways report their load with it"),
        ]
    )
    days = forms.IntegerField(
        label="Valid for, days",
        required=False,
        min_value=1,
        max_value=3650,
        help_text="Empty: as long as such a token may be.",
    )

    def purpose_and_end(self, *, now: datetime) -> tuple[SiteTokenPurpose, datetime | None]:
        """Return the purpose and the end of a valid form; None: the latest."""
        days = self.cleaned_data["days"]
        return SiteTokenPurpose(self.cleaned_data["purpose"]), now + timedelta(days=days) if days else None


class DowntimeForm(forms.Form):
    """A downtime of a site, or of a CE or a queue of it; times are of UTC."""

    #: Names of CE and queue, separated by a slash; empty: the site. It does not change.
    place = forms.CharField(required=False)
    begins_at = forms.DateTimeField(label="Begin")
    ends_at = forms.DateTimeField(label="End")
    #: The service decides how long it may be.
    reason = forms.CharField()

    @classmethod
    def of(cls, downtime: Downtime) -> Self:
        """Return the form by which the downtime is changed."""
        times = {name: f"{getattr(downtime, name):%Y-%m-%dT%H:%M}" for name in ("begins_at", "ends_at")}
        return cls(initial={**times, "reason": downtime.reason})

    def clean_reason(self) -> str:
        """Return the reason in NFC."""
        return composed(self.cleaned_data["reason"])

    @property
    def times_and_reason(self) -> Mapping[str, Any]:
        """What a valid form says of the downtime, beside its place."""
        return {name: self.cleaned_data[name] for name in ("begins_at", "ends_at", "reason")}

    @property
    def names(self) -> tuple[str, str]:
        """The names of the CE and of the queue of a valid form; empty: none."""
        ce, _, queue = self.cleaned_data["place"].partition("/")
        return ce, queue

    def add_refusal(self, error: DowntimeError) -> None:
        """Add what the service refuses, by its fields."""
        if not error.errors:
            self.add_error(None, error.detail)
        for field, sentences in error.errors.items():
            self.add_error(field, sentences)
