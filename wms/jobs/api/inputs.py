"""Request bodies and query strings of the endpoints for jobs: filters, bulk actions, reasons."""

from rest_framework import serializers

from wms.jobs.domain.lifecycle import Action
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries import GROUP_BY
from wms.jobs.services.bulk import MAX_JOBS
from wms.kernel.names import did_you_mean
from wms.kernel.rest import FilterBody, GroupBy, StrictSerializer, Text, WholeNumber
from wms.wire.protocol import API_V1

_ACTIONS = ", ".join(Action)


class JobFilterIn(FilterBody):
    """The filters of GET /api/v1/jobs/ in a body."""

    filterset_class = JobFilterSet


class SummaryIn(StrictSerializer):
    """Query string of GET /api/v1/jobs/summary/, beside the filters."""

    known_elsewhere = frozenset(JobFilterSet.base_filters)

    group_by = GroupBy(tuple(GROUP_BY), counted="Jobs", default_name="status")


class NothingIn(StrictSerializer):
    """An empty body."""


class HoldIn(StrictSerializer):
    """Body of POST /api/v1/jobs/{id}/hold/."""

    reason = Text(required=False, max_length=255, help_text="Reason, stored as the minor status.")


def job_ids(*, most: int) -> serializers.ListField:
    """Return the field with the ids of at most so many jobs."""
    return serializers.ListField(
        child=WholeNumber(), required=False, allow_empty=False, max_length=most, help_text="Ids of the jobs."
    )


class SelectedJobsIn(StrictSerializer):
    """Base of bodies that name jobs by ``ids`` (``job_ids``) or by a filter."""

    filter = JobFilterIn(required=False, help_text=f"Filters as of GET {API_V1}jobs/; at least one.")

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        """Require either ids or a filter."""
        if ("ids" in attrs) == ("filter" in attrs):
            raise serializers.ValidationError({"ids": ["Name the jobs by ids or by filter, one of the two."]})
        return attrs


class BulkIn(SelectedJobsIn):
    """Body of POST /api/v1/jobs/bulk/: an action, and the jobs by ids or by a filter."""

    action = Text(max_length=16, help_text=f"Action: one of {_ACTIONS}.")
    ids = job_ids(most=MAX_JOBS)
    reason = Text(required=False, max_length=255, help_text="Reason of a hold, stored as the minor status.")

    def validate_action(self, value: str) -> Action:
        """Return the action."""
        if value not in set(Action):
            hint = did_you_mean(value, Action) or f" The actions are {_ACTIONS}."
            raise serializers.ValidationError(f'There is no action "{value}".{hint}')
        return Action(value)

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        """Require either ids or a filter, and allow a reason only for hold."""
        attrs = super().validate(attrs)
        if "reason" in attrs and attrs["action"] is not Action.HOLD:
            raise serializers.ValidationError({"reason": ["Only the action hold accepts a reason."]})
        return attrs
