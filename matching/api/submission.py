"""POST /api/v1/jobs/: submission, with warnings about jobs that no pilot can get (ADR 32)."""

from http import HTTPStatus

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from matching.services.submission import submit
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope
from wms.jobs.api.bodies import SubmissionBody
from wms.jobs.api.outputs import FindingOut, SubmissionOut
from wms.jobs.api.views import JobListView
from wms.jobs.domain.request import parse_submission
from wms.jobs.services.submission_limits import submission_in_flight
from wms.kernel.clock import current_time
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.throttling import SubmissionRate


class JobsView(JobListView):
    """All jobs that the caller may see, and submission."""

    token_scope = TokenScope.SUBMIT
    #: Bytes: 10,000 descriptions.
    most_body_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    throttle_classes = (SubmissionRate,)

    @extend_schema(
        operation_id="jobs_submit",
        summary="Submit a job, a parametric job or a list of jobs",
        tags=[Audience.USERS],
        request=SubmissionBody,
        responses={201: SubmissionOut, **error_responses(400, 401, 403, 409, 413, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Submit all jobs of the request or none; each of them waits in its task queue afterwards.

        A job that no site may take yet because of its input data is Checking and in no task queue; a warning says so.
        """
        user = user_of(request)
        with submission_in_flight(user):
            result = submit(parse_submission(request.data), owner=user, now=current_time())
        # Not through the serializer, which would take longer for ten thousand jobs than their submission.
        jobs = [{"id": job.id, "status": job.status, "task_queue": job.task_queue} for job in result.jobs]
        answer: dict[str, object] = {"job_group_id": str(result.job_group_id), "jobs": jobs}
        answer |= {"warnings": list(result.warnings), "findings": FindingOut(result.findings, many=True).data}
        return Response(answer, status=HTTPStatus.CREATED)
