"""Jobs over REST: lists, details, histories, changes and actions."""

from collections.abc import Mapping
from typing import TypeVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.jobs import queries
from wms.jobs.api.actions import visible_job
from wms.jobs.api.bodies import EditBody
from wms.jobs.api.inputs import BulkIn, SummaryIn
from wms.jobs.api.outputs import BulkOut, HistoryOut, JobOut, JobRowOut, PeekOut, SummaryOut
from wms.jobs.domain.fields import shown
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries.found_jobs import Extent
from wms.jobs.services import bulk, editing
from wms.kernel.clock import current_time
from wms.kernel.errors import RejectedError
from wms.kernel.rest import CursorPages, checked_filters, error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.pages import PAGE_PARAMETERS

Row = TypeVar("Row")


class NoObjectError(RejectedError):
    """The body is not a JSON object."""

    code = "no_object"


class JobPages(CursorPages):
    """Jobs by id; submission times have the same order, and the id is indexed."""

    orderings = ("-id", "id", "-submitted_at", "submitted_at")

    def paginate_queryset(  # type: ignore[override]  # the rows are jobs
        self, queryset: QuerySet[Job], request: Request, view: APIView | None = None
    ) -> list[Job]:
        """Return the jobs of the requested page."""
        self._filters = checked_filters(JobFilterSet, request.query_params, also=PAGE_PARAMETERS)
        self._caller = user_of(request)
        return super().paginate_queryset(queryset, request, view)

    def _known_ordering(self, name: str) -> str:
        return super()._known_ordering(name).replace("submitted_at", "id")

    def _rows(self, _queryset: QuerySet[Job], *, backwards: bool, at_most: int) -> list[Job]:  # type: ignore[override]  # the rows are jobs
        beyond = None if self._cursor is None else int(self._cursor.pk)
        if self._descends(backwards=backwards):
            extent = Extent(at_most=at_most, before=beyond)
        else:
            extent = Extent(at_most=at_most, after=beyond, newest_first=False)
        return queries.listed(self._filters, extent, by=self._caller)


class JobListView(ListAPIView[Job]):
    """Jobs that the caller may see."""

    permission_classes = (IsUser,)
    serializer_class = JobRowOut
    pagination_class = JobPages
    filterset_class = JobFilterSet

    queryset = Job.objects.none()

    def filter_queryset(self, queryset: QuerySet[Job, Row]) -> QuerySet[Job, Row]:
        """Return what JobPages replaces: it reads the page and applies the filters."""
        return queryset

    @extend_schema(
        operation_id="jobs_list",
        summary="Find jobs",
        tags=[Audience.USERS],
        responses={200: JobRowOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of jobs that the caller may see, newest first; deleted ones only if named by status."""
        return self.list(request)


class JobSummaryView(GenericAPIView[Job]):
    """Counts of jobs."""

    permission_classes = (IsUser,)
    filterset_class = JobFilterSet

    @extend_schema(
        operation_id="jobs_summary",
        summary="Count jobs by status, site, owner, group or job type",
        tags=[Audience.USERS],
        parameters=[SummaryIn],
        filters=True,
        responses={200: SummaryOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Count the jobs that the caller may see; the filters of the list apply."""
        query = SummaryIn.checked(request.query_params)
        group_by = query.get("group_by", ("status",))
        filters = checked_filters(JobFilterSet, request.query_params, also=["group_by"])
        tallies = queries.summary(filters, by=user_of(request), group_by=group_by)
        return Response(SummaryOut({"group_by": group_by, "results": tallies}).data)


class JobView(APIView):
    """One job."""

    #: A changed list of names; a whole description has 64 kB, each character of which may be an escape.
    most_body_bytes = 512 * 1024
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT

    @extend_schema(
        operation_id="jobs_get",
        summary="Show one job",
        tags=[Audience.USERS],
        responses={200: JobOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the job; a deleted one too."""
        return Response(JobOut(visible_job(user_of(request), pk)).data)

    @extend_schema(
        operation_id="jobs_edit",
        summary="Change priority, sites, banned sites or name of a waiting job",
        tags=[Audience.USERS],
        request=EditBody,
        responses={200: JobOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Change the job while it is Waiting or Held; it moves to the queue of its new requirements."""
        if not isinstance(request.data, Mapping):
            sentence = f"Send an object with the fields to be changed, not {shown(request.data)}."
            raise NoObjectError(sentence, errors={"body": [sentence]})
        editing.edit(pk, changes=request.data, by=user_of(request), now=current_time())
        return Response(JobOut(visible_job(user_of(request), pk)).data)


class JobHistoryView(APIView):
    """The history of one job."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="jobs_history",
        summary="List the changes of a job's status, oldest first",
        tags=[Audience.USERS],
        responses={200: HistoryOut(many=True), **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the changes."""
        job = get_object_or_404(Job.objects.visible_to(user_of(request)), pk=pk)
        return Response(HistoryOut(queries.history(job), many=True).data)


class JobPeekView(APIView):
    """The last output of one job."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="jobs_peek",
        summary="Show the last lines of a job's standard output and error",
        tags=[Audience.USERS],
        responses={200: PeekOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the last lines that its pilot has sent, of the present attempt."""
        jobs = Job.objects.visible_to(user_of(request)).prefetch_related("output_tails")
        return Response(PeekOut(get_object_or_404(jobs, pk=pk)).data)


class JobBulkView(APIView):
    """Actions on many jobs."""

    #: 100,000 ids.
    most_body_bytes = 2 * 1024 * 1024
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT

    @extend_schema(
        operation_id="jobs_bulk",
        summary="Apply one action to many jobs, given by ids or a filter",
        tags=[Audience.USERS],
        request=BulkIn,
        responses={200: BulkOut, **error_responses(400, 401, 403, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Perform the action where possible, and report the other jobs; jobs hidden from the caller are `not_found`."""
        body, user, now = BulkIn.checked(request.data), user_of(request), current_time()
        reason = body.get("reason", "")
        if "ids" in body:
            result = bulk.act_on(body["action"], body["ids"], by=user, now=now, reason=reason)
        else:
            result = bulk.act_on_found(body["action"], body["filter"], by=user, now=now, reason=reason)
        return Response(BulkOut(result).data)
