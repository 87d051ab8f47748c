"""The throttle of a site over REST: its settings, and its standing now."""

from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.api.permissions import OverseesSites
from resources.domain.classad import MAX_BYTES
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import Site
from resources.queries.rights import require_may_change, sites_overseen_by
from resources.queries.throttles import ThrottleStanding, standings
from resources.services.throttles import COLUMNS
from taskqueues.services.throttles import set_throttle
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope
from wms.kernel.db import database_now
from wms.kernel.rest import ConfirmedIn, Name, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience

_NO_THROTTLE = "none"
_POLICIES = [policy or _NO_THROTTLE for policy in ThrottlePolicy]
_OF_POLICY = (
    "What is limited: `matches` needs `max_matches`; `level0` needs `max_submitting_jobs`; `level1` needs "
    "`max_submitting_and_output_gathering_jobs`; `level2` needs that and `max_jobs`; `custom` needs `requirements`; "
    "`none`: no throttle."
)
_OF_REQUIREMENTS = "ClassAd expression of the policy `custom`; empty: none."
_OF_ADVERTISEMENT_S = "Seconds between two advertisements of the site; each is valid for three times as long."
_OF_WHEN_EXPIRED = (
    "After the last advertisement has expired: `count`, the server counts its jobs itself; `closed`, no jobs start."
)
_OF_MAXIMUM = {
    "max_matches": "Matches since the measurement; null: no maximum.",
    "max_submitting_jobs": "Jobs that the gateway is submitting; null: no maximum.",
    "max_submitting_and_output_gathering_jobs": "Jobs that the gateway is submitting, or whose output it is "
    "gathering; null: no maximum.",
    "max_jobs": "Jobs at the site; null: no maximum.",
}
_LARGEST = 2**31 - 1


def _maximum_in(name: str) -> serializers.Field[Any, Any, Any, Any]:
    about = _OF_MAXIMUM[name]
    return WholeNumber(min_value=0, max_value=_LARGEST, allow_null=True, default=None, help_text=about)


def _maximum_out(name: str) -> serializers.Field[Any, Any, Any, Any]:
    return serializers.IntegerField(allow_null=True, help_text=_OF_MAXIMUM[name])


class SiteThrottleIn(ConfirmedIn):
    """All settings of the throttle of a site; those but the policy that are left out get their defaults."""

    policy = serializers.ChoiceField(choices=_POLICIES, allow_blank=True, help_text=f"{_OF_POLICY} Empty: as `none`.")
    when_expired = serializers.ChoiceField(
        choices=[str(each) for each in WhenExpired], default=str(WhenExpired.COUNT), help_text=_OF_WHEN_EXPIRED
    )
    advertisement_s = WholeNumber(min_value=1, max_value=_LARGEST, default=300, help_text=_OF_ADVERTISEMENT_S)
    requirements = Name(
        max_length=MAX_BYTES, allow_blank=True, trim_whitespace=True, default="", help_text=_OF_REQUIREMENTS
    )
    max_matches = _maximum_in("max_matches")
    max_submitting_jobs = _maximum_in("max_submitting_jobs")
    max_submitting_and_output_gathering_jobs = _maximum_in("max_submitting_and_output_gathering_jobs")
    max_jobs = _maximum_in("max_jobs")

    def validate_policy(self, policy: str) -> ThrottlePolicy:
        """Return the policy."""
        return ThrottlePolicy("" if policy == _NO_THROTTLE else policy)


class ThrottleNowOut(serializers.Serializer[ThrottleStanding]):
    """The standing of a throttle now."""

    accepting = serializers.BooleanField(help_text="Whether a further match is accepted, of some job.")
    why_closed = serializers.CharField(help_text="Why none is; empty: one is.")
    room_left = serializers.IntegerField(
        allow_null=True,
        help_text="Matches until it closes; of an expression at most 20 are tried; null: not known before the server "
        "has counted, or the job decides.",
    )
    room = serializers.CharField(source="room_in_words", help_text="The same in words.")
    cur_matches = serializers.IntegerField(
        allow_null=True, help_text="CurMatches, the number in SAM's conditions; null: undefined."
    )
    matched = serializers.IntegerField(help_text="Matches since the measurement.")
    advertised_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last advertisement; null: none, or the server has counted since."
    )
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="When the numbers expire; null: nothing was advertised or counted yet."
    )


class SiteThrottleOut(serializers.Serializer[Any]):
    """The throttle of a site: its settings, and its standing now."""

    site = serializers.CharField(help_text="Name of the site.")
    policy = serializers.ChoiceField(choices=_POLICIES, help_text=_OF_POLICY)
    when_expired = serializers.ChoiceField(choices=[str(each) for each in WhenExpired], help_text=_OF_WHEN_EXPIRED)
    advertisement_s = serializers.IntegerField(help_text=_OF_ADVERTISEMENT_S)
    requirements = serializers.CharField(help_text=_OF_REQUIREMENTS)
    max_matches = _maximum_out("max_matches")
    max_submitting_jobs = _maximum_out("max_submitting_jobs")
    max_submitting_and_output_gathering_jobs = _maximum_out("max_submitting_and_output_gathering_jobs")
    max_jobs = _maximum_out("max_jobs")
    now = ThrottleNowOut(allow_null=True, help_text="Its standing now; null: there is no throttle.")


class SiteThrottleView(APIView):
    """The throttle of a site."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="sites_throttle",
        summary="Show the throttle of a site: its settings, and whether it accepts matches now",
        tags=[Audience.MANAGERS],
        responses={200: SiteThrottleOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, site: str) -> Response:
        """Return the throttle of a site that the caller oversees."""
        return Response(_answer(_site(request, site)))

    @extend_schema(
        operation_id="sites_throttle_set",
        summary="Set the throttle of a site, or remove it",
        tags=[Audience.MANAGERS],
        request=SiteThrottleIn,
        responses={200: SiteThrottleOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def put(self, request: Request, site: str) -> Response:
        """Set all settings, which apply at once to the last advertisement.

        Administrators of the site may do this, managers at sites that serve only their VOs, and operators everywhere.
        Settings that close the site are refused until that is confirmed.
        """
        values, user, row = SiteThrottleIn.checked(request.data), user_of(request), _site(request, site)
        require_may_change(row, user)
        with transaction.atomic(durable=True):
            settings = {name: values[name] for name in COLUMNS}
            set_throttle(row, settings=settings, confirmed=values["confirmed"], by=user, reason=values["reason"])
            answer = _answer(row)
            transaction.set_rollback(values["dry_run"])
        return Response(answer)


def _site(request: Request, name: str) -> Site:
    return get_object_or_404(sites_overseen_by(user_of(request)), name=name)


def _answer(site: Site) -> dict[str, object]:
    settings = {name: getattr(site, column) for name, column in COLUMNS.items()}
    settings["policy"] = settings["policy"] or _NO_THROTTLE
    standing = standings([site], now=database_now()).get(site.pk)
    return dict(SiteThrottleOut({"site": site.name, **settings, "now": standing}).data)
