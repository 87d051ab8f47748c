"""What the endpoints for jobs take: filters, bulk actions, reasons."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from wms.jobs.domain.actions import Action
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries import GROUP_BY, JobFilter
from wms.jobs.services.bulk import MAX_JOBS
from wms.kernel.names import did_you_mean
from wms.kernel.rest import GroupBy, NameInQuery, PageQuery, StrictSerializer, Text, WholeNumber

_STATUSES = {status.casefold(): status for status in JobStatus}
_ACTIONS = ", ".join(Action)


class Statuses(serializers.CharField):
    """Job statuses: a list with commas, or a JSON list; letter case does not count."""

    def to_internal_value(self, data: object) -> frozenset[JobStatus]:  # type: ignore[override]  # not one text
        """Return the statuses."""
        names = data.split(",") if isinstance(data, str) else data
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise serializers.ValidationError("Name statuses, separated by commas, such as Waiting,Running.")
        statuses = []
        for name in names:
            status = _STATUSES.get(name.strip().casefold())
            if status is None:
                hint = did_you_mean(name.strip()[:64], JobStatus) or f" The statuses are {', '.join(JobStatus)}."
                raise serializers.ValidationError(f'There is no status "{name.strip()[:64]}".{hint}')
            statuses.append(status)
        return frozenset(statuses)


class ZonedTime(serializers.DateTimeField):
    """A moment in RFC 3339, with its zone: without one it would mean something else on every machine."""

    def to_internal_value(self, value: object) -> datetime:
        """Return the moment."""
        try:
            moment = parse_datetime(value) if isinstance(value, str) else None
            if moment is not None and moment.tzinfo is not None:
                # In UTC: PostgreSQL takes no zone of 16 hours and more.
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        sentence = "Write a time with its zone, such as 2026-06-01T12:00:00Z (in an address, + is written %2B)."
        raise serializers.ValidationError(sentence)


class JobFilterIn(StrictSerializer):
    """Which jobs are meant; every criterion narrows. Deleted jobs are left out unless that status is named."""

    status = Statuses(
        required=False, max_length=255, help_text="One status or several with commas; letter case does not count."
    )
    site = NameInQuery(required=False, max_length=128, help_text="Name of the site of the last match.")
    owner = NameInQuery(required=False, max_length=150, help_text="User name of the owner.")
    group = NameInQuery(required=False, max_length=64, help_text="Name of the group acted in.")
    vo = NameInQuery(required=False, max_length=64, help_text="Name of the VO.")
    job_name = NameInQuery(required=False, max_length=255, help_text="Name of the job, whole.")
    job_group = NameInQuery(required=False, max_length=255, help_text="Label given by the owner, whole.")
    job_group_id = serializers.UUIDField(required=False, help_text="Jobs of one submission.")
    job_type = NameInQuery(required=False, max_length=255, help_text="Type of the job.")
    submitted_after = ZonedTime(required=False, help_text="Submitted at this moment (RFC 3339) or later.")
    submitted_before = ZonedTime(required=False, help_text="Submitted before this moment (RFC 3339).")


class JobListIn(JobFilterIn, PageQuery):
    """Query string of GET /api/jobs/."""


class SummaryIn(JobFilterIn):
    """Query string of GET /api/jobs/summary/."""

    group_by = GroupBy(tuple(GROUP_BY), counted="Jobs", default_name="status")


class NothingIn(StrictSerializer):
    """An empty body."""


class HoldIn(StrictSerializer):
    """Body of POST /api/jobs/{id}/hold/."""

    reason = Text(required=False, max_length=255, help_text="Why; becomes the minor status.")


class BulkIn(StrictSerializer):
    """Body of POST /api/jobs/bulk/: an action, and the jobs by ids or by a filter."""

    action = Text(max_length=16, help_text=f"One of {_ACTIONS}.")
    ids = serializers.ListField(
        child=WholeNumber(), required=False, allow_empty=False, max_length=MAX_JOBS, help_text="Ids of the jobs."
    )
    filter = JobFilterIn(required=False, help_text="Criteria as of GET /api/jobs/; at least one.")
    reason = Text(required=False, max_length=255, help_text="Why, for hold; becomes the minor status.")

    def validate_action(self, value: str) -> Action:
        """Return the action."""
        if value not in set(Action):
            hint = did_you_mean(value, Action) or f" The actions are {_ACTIONS}."
            raise serializers.ValidationError(f'There is no action "{value}".{hint}')
        return Action(value)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require either ids or a filter, and a reason only where it goes somewhere."""
        if ("ids" in attrs) == ("filter" in attrs):
            raise serializers.ValidationError({"ids": ["Name the jobs by ids or by filter, one of the two."]})
        if "reason" in attrs and attrs["action"] is not Action.HOLD:
            raise serializers.ValidationError({"reason": ["Only hold takes a reason."]})
        return attrs


def filter_of(values: Mapping[str, Any]) -> JobFilter:
    """Return the filter that checked values of JobFilterIn, among others, make."""
    names = {field.name for field in fields(JobFilter)}
    return JobFilter(**{name: value for name, value in values.items() if name in names})
