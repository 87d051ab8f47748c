"""GET /api/v1/groups/{name}/shares/: the configured and the delivered shares of a group."""

from collections.abc import Sequence

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.queries.shares import DeliveredShare, SegmentShare, Shares, shares_of
from matching.queries.use_by_user import UserUse, use_by_user
from taskqueues.domain.history import HALF_LIFE, MAX_CORRECTION, MIN_CORRECTION
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.models import Group
from wms.kernel.db import database_now
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience


class ConfiguredOut(serializers.Serializer[object]):
    """The share configured for the group."""

    share = serializers.FloatField(help_text="Share of the group.")
    fraction = serializers.FloatField(help_text="Fraction of the shares of all groups of the VO, 0 to 1.")


class CorrectedOut(serializers.Serializer[object]):
    """The share corrected by history: configured × clip(expected / used, 1/3, 3) × normalization."""

    applied = serializers.BooleanField(help_text="Whether the VO corrects its shares; false: hypothetical values.")
    half_life_s = serializers.FloatField(help_text="Half-life of the weight of usage, in seconds.")
    expected = serializers.FloatField(
        help_text="Fraction of the configured shares of the VO that the group has, 0 to 1."
    )
    used = serializers.FloatField(
        allow_null=True,
        help_text="Fraction of the VO's usage (time under lease × processors) that the group has, 0 to 1; "
        "null: no group used anything.",
    )
    ratio = serializers.FloatField(allow_null=True, help_text="expected / used; null: the group used nothing.")
    factor = serializers.FloatField(help_text="The ratio, limited to 1/3 … 3; 1 if no group used anything.")
    least_factor = serializers.FloatField(help_text="Lower bound of the factor.")
    most_factor = serializers.FloatField(help_text="Upper bound of the factor.")
    normalization = serializers.FloatField(
        help_text="Factor that keeps the sum of the VO's shares at that of the configured ones."
    )
    share = serializers.FloatField(help_text="configured × factor × normalization.")
    fraction = serializers.FloatField(help_text="Fraction of the corrected shares of the VO, 0 to 1.")


class CountOut(serializers.Serializer[object]):
    """Jobs that pilots got."""

    count = serializers.IntegerField(help_text="Matches of the group.")
    of_vo = serializers.IntegerField(help_text="Matches of all groups of the VO.")
    fraction = serializers.FloatField(allow_null=True, help_text="count / of_vo, 0 to 1; null: the VO has no matches.")


class TimeOut(serializers.Serializer[object]):
    """Time under lease × required processors, in seconds; of open leases, so far."""

    seconds = serializers.FloatField(help_text="Lease time of the group.")
    of_vo_s = serializers.FloatField(help_text="Lease time of all groups of the VO.")
    fraction = serializers.FloatField(
        allow_null=True, help_text="seconds / of_vo_s, 0 to 1; null: the VO used nothing."
    )


class SegmentOut(serializers.Serializer[object]):
    """Usage of one CPU segment. Configured shares apply within a segment only."""

    cpu_segment_s = serializers.IntegerField(help_text="CPU segment, in reference-core seconds per core.")
    matches = CountOut()
    lease_time = TimeOut()


class UserUseOut(serializers.Serializer[object]):
    """The core hours that one user used of a group's share."""

    user = serializers.CharField()
    core_hours = serializers.FloatField(help_text="Wall-clock time × processors of jobs that ended, in hours.")


class DeliveredOut(serializers.Serializer[object]):
    """Usage since a time."""

    since = serializers.DateTimeField(help_text="Beginning of the period, rounded down to five minutes.")
    until = serializers.DateTimeField()
    matches = CountOut()
    lease_time = TimeOut()
    segments = SegmentOut(many=True, help_text="CPU segments that the VO used, shortest first.")
    used_by = UserUseOut(
        many=True,
        help_text="Users of the group whose jobs the caller may see and ended since the full hour before `since`, by "
        "what they used.",
    )


class DeliveredInWindowsOut(serializers.Serializer[object]):
    """Usage in recent periods."""

    hour = DeliveredOut()
    day = DeliveredOut()
    week = DeliveredOut()


class SharesOut(serializers.Serializer[object]):
    """The configured and the delivered shares of a group."""

    group = serializers.CharField()
    vo = serializers.CharField()
    configured = ConfiguredOut()
    corrected = CorrectedOut()
    in_effect = serializers.FloatField(help_text="Share in force, divided among the group's task queues.")
    delivered = DeliveredInWindowsOut()


class GroupSharesView(APIView):
    """Configured and delivered shares, for members of the VO."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="groups_shares",
        summary="Show the share of a group: configured, corrected by history, and delivered recently",
        tags=[Audience.USERS],
        responses={200: SharesOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the shares of one group of the caller's VOs."""
        user, now = user_of(request), database_now()
        group = get_object_or_404(Group.objects.visible_to(user).select_related("vo"), name=name)
        return Response(shares_out(shares_of(group, now=now), use_by_user([group.pk], by=user, now=now)))


def shares_out(shares: Shares, used: Sequence[UserUse]) -> dict[str, object]:
    """Return the answer."""
    corrected = shares.corrected
    return {
        "group": shares.group.name,
        "vo": shares.group.vo.name,
        "configured": {"share": corrected.configured, "fraction": corrected.expected},
        "corrected": {
            "applied": shares.group.vo.history_fair_share,
            "half_life_s": HALF_LIFE.total_seconds(),
            "expected": corrected.expected,
            "used": corrected.used,
            "ratio": corrected.ratio,
            "factor": corrected.factor,
            "least_factor": MIN_CORRECTION,
            "most_factor": MAX_CORRECTION,
            "normalization": corrected.normalization,
            "share": corrected.corrected,
            "fraction": corrected.fraction,
        },
        "in_effect": shares.in_effect,
        "delivered": {
            window: {**_delivered_out(share), "used_by": _used_by(used, window)}
            for window, share in shares.delivered.items()
        },
    }


def _delivered_out(share: DeliveredShare) -> dict[str, object]:
    segments = [{"cpu_segment_s": s.cpu_segment_s, **_parts(s)} for s in share.segments]
    return {"since": share.since, "until": share.until, **_parts(share), "segments": segments}


def _used_by(used: Sequence[UserUse], window: str) -> list[dict[str, object]]:
    by_use = sorted(used, key=lambda each: -each.core_hours[window])
    return [{"user": each.user, "core_hours": each.core_hours[window]} for each in by_use if each.core_hours[window]]


def _parts(share: DeliveredShare | SegmentShare) -> dict[str, object]:
    return {
        "matches": {
            "count": share.group.matches,
            "of_vo": share.vo.matches,
            "fraction": _fraction(share.group.matches, share.vo.matches),
        },
        "lease_time": {
            "seconds": share.group.processor_s,
            "of_vo_s": share.vo.processor_s,
            "fraction": _fraction(share.group.processor_s, share.vo.processor_s),
        },
    }


def _fraction(part: float, whole: float) -> float | None:
    return part / whole if whole else None
