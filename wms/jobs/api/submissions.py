"""Submissions over REST: the caller's own, and one with the places of its jobs."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.domain.time_left import time_left
from wms.jobs.models import NameRest, SubmissionContent
from wms.jobs.queries import submissions
from wms.jobs.queries.submissions import CountedSubmission, PlaceCount
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience


class NoSubmissionError(NotFoundError):
    """There is no such submission, or the caller may not see it."""

    code = "not_found"


class SubmissionPages(CursorPages):
    """Submissions in the order of their first jobs, newest first."""

    orderings = ("-first_job_id", "first_job_id")


class SubmissionRowOut(serializers.Serializer[Any]):
    """One submission as a row of a list."""

    job_group_id = serializers.UUIDField(source="content.pk", help_text="Id of the submission.")
    job_group = serializers.CharField(
        source="content.job_group", allow_null=True, help_text="Label of its jobs; null: they differ in it."
    )
    job_name = serializers.SerializerMethodField(help_text="Name of its jobs; * stands for what they differ in.")
    owner = serializers.CharField(source="content.owner.username", help_text="User name of its owner.")
    group = serializers.CharField(source="content.group.name", help_text="Group in which its owner acted.")
    submitted_at = serializers.DateTimeField(source="content.submission.submitted_at", help_text="Time of submission.")
    first_job_id = serializers.IntegerField(source="content.first_job_id", help_text="Id of its first job.")
    last_job_id = serializers.IntegerField(source="content.last_job_id", help_text="Id of its last job.")
    jobs = serializers.DictField(
        child=serializers.IntegerField(), help_text="{status: number of its jobs}, without statuses of no job."
    )

    def get_job_name(self, counted: CountedSubmission) -> str:
        """Return the name, or what the names have in common."""
        content = counted.content
        return content.name_prefix if content.name_rest == NameRest.NOTHING else f"{content.name_prefix}*"


class PlaceCountOut(serializers.Serializer[object]):
    """Number of jobs at one site, in one status."""

    site = serializers.SerializerMethodField(help_text="Site of the last match; null: none.")
    status = serializers.CharField(help_text="Status of the jobs.")
    jobs = serializers.IntegerField(help_text="Number of jobs.")

    def get_site(self, place: PlaceCount) -> str | None:
        """Return the site."""
        return place.site or None


class TimeRangeOut(serializers.Serializer[object]):
    """A time that is between two, in eight of ten cases."""

    least = serializers.IntegerField(source="least_s", help_text="In seconds.")
    most = serializers.IntegerField(
        source="most_s", help_text="In seconds, at most three times the other, or ten minutes."
    )


class SubmissionDetailOut(SubmissionRowOut):
    """One submission with the places of its jobs."""

    places = PlaceCountOut(many=True, help_text="Numbers of its jobs by site and status, without Deleted ones.")
    outputs = serializers.IntegerField(help_text="Number of its jobs whose output can be downloaded.")
    time_left_s = TimeRangeOut(
        allow_null=True,
        help_text="Time until all have ended but those held; null: none runs, or too few have ended in the last hour.",
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Warnings with which it was answered, if it had a request_id."
    )


class SubmissionListView(GenericAPIView[SubmissionContent]):
    """Submissions of the caller."""

    permission_classes = (IsUser,)
    serializer_class = SubmissionRowOut
    pagination_class = SubmissionPages

    def get_queryset(self) -> QuerySet[SubmissionContent]:
        """Return the caller's own submissions."""
        # Uses index: content_of_owner
        found = SubmissionContent.objects.filter(owner=user_of(self.request))
        return found.select_related("submission", "owner", "group")

    @extend_schema(
        operation_id="submissions_list",
        summary="List one's own submissions with the numbers of their jobs by status",
        tags=[Audience.USERS],
        responses={200: SubmissionRowOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the framework keeps it on the view
        """Return one page of the caller's submissions, newest first."""
        page = self.paginate_queryset(self.get_queryset()) or []
        return self.get_paginated_response(SubmissionRowOut(submissions.counted(page), many=True).data)


class SubmissionView(APIView):
    """One submission."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="submissions_get",
        summary="Show one submission: its jobs by status and site",
        tags=[Audience.USERS],
        responses={200: SubmissionDetailOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """Return the submission; 404 if the caller may not see its jobs."""
        counted = submissions.visible_submission(pk, by=user_of(request))
        if counted is None:
            raise NoSubmissionError(f"There is no submission {pk}, or you may not see it.")
        jobs = submissions.jobs_of(pk, now=current_time())
        left = time_left(jobs.progress)
        answer: dict[str, object] = {
            **SubmissionRowOut(counted).data,
            "places": PlaceCountOut(jobs.places, many=True).data,
            "outputs": jobs.outputs,
            "time_left_s": left and TimeRangeOut(left).data,
            "warnings": list(submissions.warnings_of(pk)),
        }
        return Response(answer)
