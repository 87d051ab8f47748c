"""The admin page of throttles: which sites accept matches now, how many more, and why not (SAM)."""

from collections.abc import Mapping
from datetime import datetime

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.timesince import timesince

from resources.domain.enums import ThrottlePolicy
from resources.models import SiteThrottle, ThrottleState
from resources.queries.rights import sites_serving
from resources.queries.throttles import ThrottleStanding, throttle_of
from wms.accounts.admin.rights import VOLevelLedger
from wms.kernel.db import DatabaseNow
from wms.kernel.time_texts import to_the_second

_NOTHING = "–"


def state_of(site: SiteThrottle) -> ThrottleState | None:
    """Return the state of the site's throttle; None: there is none yet."""
    return getattr(site, "throttle_state", None)


@admin.register(SiteThrottle)
class SiteThrottleAdmin(VOLevelLedger[SiteThrottle]):
    """Throttles: why a site gets no jobs; for operators and managers. The policy is set on the site's page."""

    list_display = (
        "name",
        "policy",
        "accepting",
        "room_left",
        "matched",
        "advertised",
        "counted_by",
        "why_closed",
    )
    search_fields = ("name",)
    ordering = ("name",)
    readonly_fields = (
        "accepting",
        "why_closed",
        "room_left",
        "cur_matches",
        "matched",
        "advertised",
        "counted_by",
        "expires_at",
        "measured_at",
        "sequence",
        "gateways",
        "numbers",
        "classad",
    )
    fieldsets = (
        (None, {"fields": ("name", "accepting", "why_closed")}),
        ("Now", {"fields": ("room_left", "cur_matches", "matched", "advertised", "counted_by", "expires_at")}),
        ("Known of the site", {"fields": ("measured_at", "sequence", "gateways", "numbers", "classad")}),
        (
            "Configured",
            {
                "fields": (
                    "throttle_policy",
                    "throttle_when_expired",
                    "throttle_advertisement_s",
                    "max_matches",
                    "max_submitting_jobs",
                    "max_submitting_and_output_gathering_jobs",
                    "max_jobs",
                    "throttle_requirements",
                )
            },
        ),
    )

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the sites that serve the VOs, also those with other managers."""
        return Q(pk__in=sites_serving(vos))

    def get_queryset(self, request: HttpRequest) -> QuerySet[SiteThrottle]:
        """Return the sites with a throttle, with its state and the database's time."""
        throttled = super().get_queryset(request).exclude(throttle_policy=ThrottlePolicy.NONE)
        return throttled.select_related("throttle_state").annotate(right_now=DatabaseNow())

    @admin.display(description="policy", ordering="throttle_policy")
    def policy(self, site: SiteThrottle) -> str:
        """Return its policy."""
        return site.throttle_policy

    @admin.display(description="accepting", boolean=True)
    def accepting(self, site: SiteThrottle) -> bool:
        """Return whether a further match is accepted."""
        return _standing(site).accepting

    @admin.display(description="room left")
    def room_left(self, site: SiteThrottle) -> str:
        """Return how many further matches are accepted."""
        return _standing(site).room_in_words

    @admin.display(description="CurMatches")
    def cur_matches(self, site: SiteThrottle) -> str:
        """Return CurMatches, the number in SAM's conditions."""
        known = _standing(site).cur_matches
        return "undefined" if known is None else str(known)

    @admin.display(description="matches since")
    def matched(self, site: SiteThrottle) -> int:
        """Return the matches since the measurement."""
        return _standing(site).matched

    @admin.display(description="last advertisement")
    def advertised(self, site: SiteThrottle) -> str:
        """Return the time of the last advertisement, unless the server has counted since."""
        at = _standing(site).advertised_at
        return _NOTHING if at is None else f"{timesince(at, _right_now(site))} ago ({_written(at)})"

    @admin.display(description="counted by")
    def counted_by(self, site: SiteThrottle) -> str:
        """Return whose numbers are used."""
        standing = _standing(site)
        if standing.counts_itself:
            return "the server"
        return "nobody: expired" if standing.is_expired else "the site"

    @admin.display(description="expires at")
    def expires_at(self, site: SiteThrottle) -> str:
        """Return when the numbers expire."""
        return _written(_standing(site).expires_at)

    @admin.display(description="measured at")
    def measured_at(self, site: SiteThrottle) -> str:
        """Return since when matches are counted."""
        return _written(_standing(site).measured_at)

    @admin.display(description="sequence")
    def sequence(self, site: SiteThrottle) -> str:
        """Return the last accepted sequence of each gateway."""
        sequences = [(each.name, each.sequence) for each in _standing(site).gateways if each.sequence is not None]
        return ", ".join(f"{name}: {last}" if name else str(last) for name, last in sequences) or _NOTHING

    @admin.display(description="gateways")
    def gateways(self, site: SiteThrottle) -> str:
        """Return the numbers of each of several gateways."""
        states = _standing(site).gateways
        if not any(each.name for each in states):
            return _NOTHING
        return "; ".join(f"{each.name or 'without a name'}: {_numbers(each.numbers)}" for each in states)

    @admin.display(description="numbers")
    def numbers(self, site: SiteThrottle) -> str:
        """Return the advertised or counted numbers."""
        state = state_of(site)
        return _numbers({} if state is None else state.advertised)

    @admin.display(description="ClassAd")
    def classad(self, site: SiteThrottle) -> str:
        """Return the advertisements in ClassAd form."""
        return "\n".join(each.classad for each in _standing(site).gateways if each.classad) or _NOTHING

    @admin.display(description="why closed")
    def why_closed(self, site: SiteThrottle) -> str:
        """Return the reason in one sentence."""
        return _standing(site).why_closed or _NOTHING


def _numbers(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {number}" for name, number in sorted(numbers.items())) or _NOTHING


def _written(moment: datetime | None) -> str:
    return to_the_second(moment) or _NOTHING


def _right_now(site: SiteThrottle) -> datetime:
    now: datetime = vars(site)["right_now"]
    return now


def _standing(site: SiteThrottle) -> ThrottleStanding:
    """Return the state of the throttle; computed once for each row of a page."""
    known = vars(site)
    if "standing" not in known:
        known["standing"] = throttle_of(site, state_of(site), now=_right_now(site))
    standing: ThrottleStanding = known["standing"]
    return standing
