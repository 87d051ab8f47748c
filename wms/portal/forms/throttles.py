"""Forms of the throttle of a site, and of limits at it."""

from collections.abc import Sequence
from typing import Final

from django import forms
from django.http import QueryDict
from django.utils.text import capfirst

from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import ComputingElement
from resources.services.throttles import COLUMNS
from taskqueues.domain.limits import BOUNDS, LARGEST_BURST, LONGEST_DELAY_S
from wms.kernel.consequences import ConfirmationNeededError
from wms.kernel.names import composed, is_one_line

_LARGEST: Final = 2**31 - 1
_LARGEST_BIG: Final = 2**63 - 1
#: {policy: words of its choice}.
_POLICIES: Final = (
    (ThrottlePolicy.NONE, "none"),
    (ThrottlePolicy.MATCHES, "matches: matches since the measurement"),
    (ThrottlePolicy.LEVEL0, "level0: jobs being submitted"),
    (ThrottlePolicy.LEVEL1, "level1: jobs being submitted, or whose output is gathered"),
    (ThrottlePolicy.LEVEL2, "level2: as level1, and jobs at the site"),
    (ThrottlePolicy.CUSTOM, "custom: an expression"),
)
_WHEN_EXPIRED: Final = (
    (WhenExpired.COUNT, "the server counts its jobs itself"),
    (WhenExpired.CLOSED, "no jobs start"),
)


class FormToConfirm(forms.Form):
    """A form whose consequences its sender confirms."""

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


def _maximum(label: str) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=_LARGEST, label=label, help_text="Empty: none.")


class ThrottleForm(FormToConfirm):
    """The settings of a throttle, by the names of COLUMNS."""

    policy = forms.ChoiceField(choices=_POLICIES, required=False, label="Policy")
    max_matches = _maximum("Most matches")
    max_submitting_jobs = _maximum("Most jobs being submitted")
    max_submitting_and_output_gathering_jobs = _maximum("Most jobs being submitted or gathered")
    max_jobs = _maximum("Most jobs")
    requirements = forms.CharField(
        required=False,
        label="Expression",
        help_text="Of the policy custom: a ClassAd expression over the advertisement and, as TARGET, the job.",
        widget=forms.Textarea(attrs={"rows": 3, "class": "code", "spellcheck": "false", "autocomplete": "off"}),
    )
    when_expired = forms.ChoiceField(choices=_WHEN_EXPIRED, label="When the advertisement has expired")
    advertisement_s = forms.IntegerField(
        min_value=1,
        max_value=_LARGEST,
        label="Seconds between advertisements",
        help_text="Each is valid three times as long.",
    )

    def clean_requirements(self) -> str:
        """Return the expression in NFC, with plain line breaks."""
        return composed(self.cleaned_data["requirements"].replace("\r\n", "\n"))

    @property
    def settings(self) -> dict[str, object]:
        """Return the settings of a valid form."""
        return {name: self.cleaned_data[name] for name in COLUMNS}


def _bound(label: str, *, most: int, least: int = 0) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=least, max_value=most, label=label)


class SiteLimitForm(FormToConfirm):
    """The bounds of a limit."""

    running = _bound("Jobs at a time", most=_LARGEST)
    cpu_s_per_day = _bound("CPU seconds in 24 hours", most=_LARGEST_BIG)
    delay_s = forms.FloatField(required=False, min_value=0, max_value=LONGEST_DELAY_S, label="Seconds between matches")
    burst = _bound("Matches at once after a pause", most=LARGEST_BURST, least=1)

    @property
    def bounds(self) -> dict[str, object]:
        """Return all bounds of a valid form; jobs at a place have no limit of waiting ones."""
        return {name: self.cleaned_data.get(name) for name in BOUNDS}


class NewSiteLimitForm(SiteLimitForm):
    """A new limit at a site."""

    field_order = ("ce", "job_type")
    ce = forms.ModelChoiceField(
        ComputingElement.objects.none(),
        required=False,
        empty_label="the whole site",
        label="Place",
        to_field_name="name",
    )
    job_type = forms.CharField(required=False, max_length=255, label="Type of jobs", help_text="Empty: all.")

    def clean_job_type(self) -> str:
        """Return the type in NFC."""
        job_type = composed(self.cleaned_data["job_type"])
        if not is_one_line(job_type):
            raise forms.ValidationError("Write one line, without control characters.")
        return job_type
