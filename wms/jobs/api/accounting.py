"""GET /api/v1/accounting/: jobs, CPU time and core hours of a period, by group, user, site, type, month or country."""

from datetime import date
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.domain.accounting import ReportKey
from wms.jobs.queries import accounting
from wms.jobs.queries.accounting import MOST_ROWS, NARROWED_BY, ReportRow, ReportSums
from wms.kernel.clock import current_time
from wms.kernel.rest import GroupBy, Name, StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience

_MOST_KEYS: Final = 2
#: A part of an hour: 4 s.
_DIGITS: Final = 3
_KEYS: Final = tuple(str(key) for key in ReportKey)


class AccountingIn(StrictSerializer):
    """Query string of GET /api/v1/accounting/."""

    by = GroupBy(_KEYS, counted="Jobs", default_name="group")
    since = serializers.DateField(
        required=False, help_text="First day, in UTC, such as 2026-01-01; left out: the first of the year of `until`."
    )
    until = serializers.DateField(required=False, help_text="Last day, in UTC; left out: today.")
    vo = Name(max_length=64, required=False, help_text="Jobs of this VO.")
    group = Name(max_length=64, required=False, help_text="Jobs of this group.")
    user = Name(max_length=150, required=False, help_text="Jobs of this user.")
    site = Name(max_length=128, required=False, help_text="Jobs at this site.")
    type = Name(max_length=255, required=False, help_text="Jobs of this type.")

    def validate_by(self, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse more properties than a table shows."""
        if len(value) > _MOST_KEYS:
            raise serializers.ValidationError(f"Count by {_MOST_KEYS} properties at most.")
        return value

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """Refuse a period that ends before it begins."""
        if values.get("until", date.max) < values.get("since", date.min):
            raise serializers.ValidationError({"until": ["The last day is before the first."]})
        return values


class ReportSumsOut(serializers.Serializer[ReportSums]):
    """Starts and ends of jobs, and what those that ended have used."""

    started = serializers.IntegerField(help_text="Starts of payloads: a job that was rescheduled has several.")
    done = serializers.IntegerField(help_text="Ends as Done.")
    failed = serializers.IntegerField(help_text="Ends as Failed.")
    killed = serializers.IntegerField(help_text="Ends as Killed.")
    success = serializers.FloatField(allow_null=True, help_text="done / (done + failed), 0 to 1; null: there are none.")
    cpu_hours = serializers.FloatField(help_text="CPU time of the jobs that ended, in hours.")
    core_hours = serializers.FloatField(help_text="Their wall-clock time times processors, in hours.")
    efficiency = serializers.FloatField(allow_null=True, help_text="cpu_hours / core_hours; null: no time was used.")

    def to_representation(self, instance: ReportSums) -> dict[str, float | None]:
        """Return the numbers, hours rounded."""
        return {
            name: round(number, _DIGITS) if name.endswith("_hours") else number
            for name, number in super().to_representation(instance).items()
        }


class ReportRowOut(ReportSumsOut):
    """The jobs with these values."""

    group = serializers.CharField(required=False, help_text="Group; present if counted by it.")
    user = serializers.CharField(required=False, help_text="User name of the owner; present if counted by it.")
    site = serializers.CharField(
        required=False, allow_null=True, help_text="Site; null: they were at none; present if counted by it."
    )
    type = serializers.CharField(
        required=False, allow_null=True, help_text="Job type; null: they had none; present if counted by it."
    )
    month = serializers.CharField(
        required=False, help_text="Calendar month in UTC, such as 2026-03; present if counted by it."
    )
    country = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="The site's parameter `Country`; null: it has none; present if counted by it.",
    )

    def to_representation(self, instance: ReportRow) -> dict[str, object]:  # type: ignore[override]  # of a row
        """Return the values that jobs were counted by, then the numbers."""
        values = zip(self.context["by"], instance.values, strict=True)
        return {**dict(values), **ReportSumsOut(instance.sums).data}


class AccountingOut(serializers.Serializer[object]):
    """The sums of the jobs of a period, by one or two of their properties."""

    since = serializers.DateField(
        allow_null=True,
        help_text="First day of the period for which there are numbers: days before the accounting began, or older "
        "than it keeps, are not part of it. null: there is no such day.",
    )
    until = serializers.DateField(allow_null=True, help_text="Last such day; today is not over yet.")
    by = serializers.ListField(
        child=serializers.ChoiceField(choices=list(_KEYS)), help_text="Properties counted by, in this order."
    )
    row_count = serializers.IntegerField(help_text=f"Number of rows; only {MOST_ROWS} are in `results`.")
    results = ReportRowOut(
        many=True,
        help_text=f"In the order of their values; of more than {MOST_ROWS} rows those with the most core hours.",
    )
    total = ReportSumsOut(help_text="Sums of all rows, also of those that are not in `results`.")


class AccountingView(APIView):
    """The address of the sums of a period."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="accounting",
        summary="Sum up jobs, CPU time and core hours by group, user, site, type, month or country",
        tags=[Audience.USERS],
        parameters=[AccountingIn],
        responses={200: AccountingOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Sum up what jobs that the caller may see did and used in some days."""
        query = AccountingIn.checked(request.query_params)
        by = query.get("by", (str(ReportKey.GROUP),))
        days = accounting.days_accounted(query.get("since"), query.get("until"), now=current_time())
        report = accounting.report(
            days,
            by_user=user_of(request),
            keys=[ReportKey(key) for key in by],
            narrowed={name: query[name] for name in NARROWED_BY if name in query},
            most=MOST_ROWS,
        )
        answer = {
            "since": days and days.first.date(),
            "until": days and days.last.date(),
            "by": by,
            "row_count": len(report.rows) + report.rest_count,
            "results": report.rows,
            "total": report.total,
        }
        return Response(AccountingOut(answer, context={"by": by}).data)
