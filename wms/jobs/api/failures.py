"""GET /api/v1/jobs/failures/: failed jobs in groups, by cause, and what those of each have in common."""

from collections.abc import Mapping

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.domain.commonalities import Commonality, Relation
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries.failures import FailureGroup, Failures, FailuresAt, failures, last_lines_of
from wms.kernel.rest import checked_filters, error_responses
from wms.kernel.rest.audience import Audience


class FailurePlaceOut(serializers.Serializer[FailuresAt]):
    """The number of jobs that failed at one place."""

    site = serializers.CharField(source="place.site", help_text="Site; empty: unknown.")
    host = serializers.CharField(source="place.host", help_text="Host; empty: unknown.")
    jobs = serializers.IntegerField(help_text="Number of jobs.")


class FailedExampleOut(serializers.Serializer[Job]):
    """The newest job of a group."""

    id = serializers.IntegerField(help_text="Id of the job.")
    minor_status = serializers.CharField(help_text="Its reason as it is.")
    lines = serializers.SerializerMethodField(
        help_text="Last lines of the stream with the cause; else of standard error, or of output if that is empty."
    )

    def get_lines(self, job: Job) -> str:
        """Return the lines."""
        return last_lines_of(job)


class CommonalityOut(serializers.Serializer[Commonality]):
    """What failed jobs of a group have in common, and few other jobs."""

    name = serializers.CharField(
        help_text="host, CE, site, owner, started (seconds since 1970), an option such as --seed, argument 1, or $NAME."
    )
    sentence = serializers.CharField(help_text="All of it in words.")
    relation = serializers.ChoiceField(choices=[str(each) for each in Relation], help_text="How it compares.")
    value = serializers.SerializerMethodField("value_of", help_text="A text, or a number.")
    failed = serializers.IntegerField(help_text="Jobs of the group of which it is true.")
    of_failed = serializers.IntegerField(help_text="Jobs of the group that were compared.")
    others = serializers.IntegerField(help_text="Other jobs of which it is true: Done, or failed for other causes.")
    of_others = serializers.IntegerField(help_text="Other jobs that were compared.")

    @extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number"}]})
    def value_of(self, common: Commonality) -> str | float:
        """Return the value."""
        return common.value


class FailureGroupOut(serializers.Serializer[FailureGroup]):
    """Failed jobs with one kind of cause and the same exit code."""

    title = serializers.CharField(help_text="Cause in the words of the example: a line of its output, or its reason.")
    cause = serializers.CharField(help_text="Value of the filter `cause` for it; empty: the output tells no cause.")
    reason = serializers.CharField(source="reason.text", help_text="Reason, with placeholders such as <number>.")
    pattern = serializers.CharField(source="reason.pattern", help_text="Value of the filter `minor_status` for it.")
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="Exit code of the payload; null: it did not end by itself."
    )
    jobs = serializers.IntegerField(help_text="Number of jobs.")
    places = FailurePlaceOut(many=True, help_text="Places with most of them first, at most 8.")
    place_count = serializers.IntegerField(help_text="Number of all places.")
    common = CommonalityOut(many=True, help_text="What they have in common, and few others; at most 3.")
    example = FailedExampleOut(help_text="The newest of them.")


class FailuresOut(serializers.Serializer[Failures]):
    """Failed jobs in groups."""

    jobs = serializers.IntegerField(help_text="Number of jobs that were grouped.")
    is_whole = serializers.BooleanField(help_text="Whether these are all that match; false: the newest ones.")
    group_count = serializers.IntegerField(help_text="Number of all groups.")
    groups = FailureGroupOut(many=True, help_text="The largest first, at most 20.")


class JobFailuresView(GenericAPIView[Job]):
    """Failed jobs in groups."""

    permission_classes = (IsUser,)
    filterset_class = JobFilterSet

    @extend_schema(
        operation_id="jobs_failures",
        summary="Group failed jobs by cause, exit code and place",
        tags=[Audience.USERS],
        filters=True,
        responses={200: FailuresOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Group the failed jobs that the caller may see; the filters of the list apply, and `status` is Failed."""
        query: dict[str, object] = {"status": JobStatus.FAILED.value, **request.query_params.dict()}
        filters = checked_filters(JobFilterSet, query)
        done = checked_filters(JobFilterSet, {**_without_kind(query), "status": JobStatus.DONE.value})
        return Response(FailuresOut(failures(filters, by=user_of(request), done=done)).data)


def _without_kind(query: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in query.items() if name not in {"cause", "minor_status", "exit_code"}}
