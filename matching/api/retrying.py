"""POST /api/v1/jobs/retry/: new jobs, with changes, in the place of failed ones."""

from http import HTTPStatus

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.services import retrying
from matching.services.retrying import RetryChanges
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.jobs.api.inputs import SelectedJobsIn, job_ids
from wms.jobs.api.outputs import RefusalOut, SubmissionOut
from wms.jobs.domain.parsing_budget import MAX_JOBS
from wms.jobs.queries.found_jobs import Extent, find
from wms.jobs.services.bulk import refuse_empty
from wms.jobs.services.submission_limits import submission_in_flight
from wms.jobs.sql.lists import ids_of
from wms.kernel.clock import current_time
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.throttling import SubmissionRate


class RetryIn(SelectedJobsIn):
    """Body: the jobs by ids or by a filter, and what is different in the new ones."""

    ids = job_ids(most=MAX_JOBS)
    changes = serializers.DictField(
        required=False, help_text='Fields of descriptions, in the place of those of each job: {"memory_mb": 4000}.'
    )
    files = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="{name: sha256:…} of uploaded files, each in the place of the one of its name in the input sandbox.",
    )
    request_id = serializers.UUIDField(
        required=False, help_text="A repeated request with this id gets the first answer and submits nothing."
    )


class RetryOut(SubmissionOut):
    """Response to a retry: the new jobs, and which jobs were retried."""

    retried = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Ids of the retried jobs, in the order of `jobs`; empty for a repeated request.",
    )
    refused = RefusalOut(many=True, help_text="Jobs that were not retried, with the code of the reason.")


class RetryView(APIView):
    """Retries with changes."""

    #: 10,000 ids, and a description.
    most_body_bytes = 1024 * 1024
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT
    throttle_classes = (SubmissionRate,)

    @extend_schema(
        operation_id="jobs_retry",
        summary="Submit jobs with changes in the place of failed ones",
        tags=[Audience.USERS],
        request=RetryIn,
        responses={201: RetryOut, **error_responses(400, 401, 403, 409, 413, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Submit a new job in the place of each Failed or Killed job of the caller; these stay as they ended."""
        body, user = RetryIn.checked(request.data), user_of(request)
        changes = RetryChanges(
            fields=body.get("changes", {}), files=body.get("files", {}), request_id=body.get("request_id")
        )
        job_ids = body.get("ids")
        if job_ids is None:
            refuse_empty(body["filter"])
            job_ids = ids_of(find(body["filter"], Extent(at_most=MAX_JOBS + 1), by=user))
        with submission_in_flight(user):
            result = retrying.retry(frozenset(job_ids), changes, by=user, now=current_time())
        answer = {
            "job_group_id": result.submission.job_group_id,
            "jobs": result.submission.jobs,
            "warnings": result.submission.warnings,
            "findings": result.submission.findings,
            "retried": result.retried,
            "refused": result.refused,
        }
        return Response(RetryOut(answer).data, status=HTTPStatus.CREATED)
