"""GET /api/v1/jobs/failures/: failed jobs in groups, by what their reasons have in common."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from wms.accounts.api.permissions import IsUser, user_of
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
        help_text="Last lines of its standard error, or of its standard output if that is empty."
    )

    def get_lines(self, job: Job) -> str:
        """Return the lines."""
        return last_lines_of(job)


class FailureGroupOut(serializers.Serializer[FailureGroup]):
    """Failed jobs with the same kind of reason and the same exit code."""

    reason = serializers.CharField(source="reason.text", help_text="Reason, with placeholders such as <number>.")
    pattern = serializers.CharField(source="reason.pattern", help_text="Value of the filter `minor_status` for it.")
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="Exit code of the payload; null: it did not end by itself."
    )
    jobs = serializers.IntegerField(help_text="Number of jobs.")
    places = FailurePlaceOut(many=True, help_text="Places with most of them first, at most 8.")
    place_count = serializers.IntegerField(help_text="Number of all places.")
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
        summary="Group failed jobs by reason, exit code and place",
        tags=[Audience.USERS],
        filters=True,
        responses={200: FailuresOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Group the failed jobs that the caller may see; the filters of the list apply, and `status` is Failed."""
        query: dict[str, object] = {"status": JobStatus.FAILED.value, **request.query_params.dict()}
        filters = checked_filters(JobFilterSet, query)
        return Response(FailuresOut(failures(filters, by=user_of(request))).data)
