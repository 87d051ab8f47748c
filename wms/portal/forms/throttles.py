"""Forms of the throttle of a site, and of limits at it."""

from collections.abc import Sequence
from typing import Final

from django import forms
from django.http import QueryDict

from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import ComputingElement, Site
from resources.services.throttles import COLUMNS
from taskqueues.domain.limits import BOUNDS, LARGEST_BURST, LONGEST_DELAY_S
from taskqueues.services.limits import nameable
from wms.accounts.models import VO, Group, User
from wms.kernel.names import composed, is_one_line
from wms.portal.forms.confirmed import FormToConfirm

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


#: What a limit at a site may be on.
_SCOPE: Final = ("ce", "vo", "group", "user", "job_type")


def _maximum(label: str) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=_LARGEST, label=label, help_text="Empty: none.")


class ThrottleForm(FormToConfirm):
    """The settings of a throttle, by the names of COLUMNS."""

    field_order = (*COLUMNS, "reason")
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

    field_order: Sequence[str] = (*BOUNDS, "reason")
    running = _bound("Jobs at a time", most=_LARGEST)
    cpu_s_per_day = _bound("CPU seconds in 24 hours", most=_LARGEST_BIG)
    delay_s = forms.FloatField(required=False, min_value=0, max_value=LONGEST_DELAY_S, label="Seconds between matches")
    burst = _bound("Matches at once after a pause", most=LARGEST_BURST, least=1)

    @property
    def bounds(self) -> dict[str, object]:
        """Return all bounds of a valid form; jobs at a place have no limit of waiting ones."""
        return {name: self.cleaned_data.get(name) for name in BOUNDS}


class NewSiteLimitForm(SiteLimitForm):
    """A new limit at a site, on the jobs there of all or of some.

    Args:
        data: as sent; None: an empty form.
        site: the site.
        user: who adds it.
    """

    field_order = (*_SCOPE, *SiteLimitForm.field_order)
    ce = forms.ModelChoiceField(
        ComputingElement.objects.none(),
        required=False,
        empty_label="the whole site",
        label="Place",
        to_field_name="name",
    )
    vo = forms.ModelChoiceField(VO.objects.none(), required=False, empty_label="all", label="VO", to_field_name="name")
    group = forms.ModelChoiceField(
        Group.objects.none(), required=False, empty_label="all", label="Group", to_field_name="name"
    )
    #: Typed, not chosen: nobody is shown all names.
    user = forms.ModelChoiceField(
        User.objects.none(),
        required=False,
        label="User",
        to_field_name="username",
        help_text="Exact user name; empty: all.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"invalid_choice": "You have no user of exactly this name; letter case counts."},
    )
    job_type = forms.CharField(required=False, max_length=255, label="Type of jobs", help_text="Empty: all.")

    def __init__(self, data: QueryDict | None = None, *, site: Site, user: User) -> None:
        super().__init__(data, auto_id="limit-new-%s")
        choices = {**nameable(user), "ce": ComputingElement.objects.filter(site=site)}
        for name, rows in choices.items():
            field = self.fields[name]
            if isinstance(field, forms.ModelChoiceField):
                field.queryset = rows if name == "user" else rows.order_by("name")

    @property
    def scope(self) -> dict[str, object]:
        """Return the jobs at the site that the limit of a valid form is on."""
        return {name: self.cleaned_data[name] for name in _SCOPE}

    def clean_job_type(self) -> str:
        """Return the type in NFC."""
        job_type = composed(self.cleaned_data["job_type"])
        if not is_one_line(job_type):
            raise forms.ValidationError("Write one line, without control characters.")
        return job_type
