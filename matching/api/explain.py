"""GET /api/v1/jobs/{id}/explain/ and /api/v1/jobs/explain/: the reasons why a job, or those of a list, wait."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.domain.findings import Explanation
from matching.domain.sentences import worded
from matching.queries.explain.explanation import (
    MOST_JOBS,
    MOST_QUEUES,
    MOST_TASK_QUEUES,
    ExplainedTaskQueue,
    explain,
    explain_selection,
)
from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.api.actions import visible_job
from wms.jobs.api.outputs import StatusField
from wms.jobs.api.submissions import TimeRangeOut
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.time_left import TimeRange
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.kernel.rest import StrictSerializer, checked_filters, error_responses
from wms.kernel.rest.audience import Audience


class ExplainQuery(StrictSerializer):
    """Query parameters."""

    site = serializers.CharField(
        max_length=255,
        required=False,
        help_text="Return only the queues of this site; conditions and summary do not change.",
    )


class ExplainedConditionOut(serializers.Serializer[object]):
    """One condition of the match, by itself."""

    name = serializers.CharField()
    passed_queues = serializers.IntegerField(
        help_text="Number of queues that serve the job's VO and satisfy the condition."
    )
    failed_queues = serializers.IntegerField(
        help_text="Number of queues that serve the job's VO and do not satisfy the condition."
    )
    detail = serializers.CharField(help_text="Requirement of the job, and offers of the queues.")


class ExplainedQueueOut(serializers.Serializer[object]):
    """One configured queue."""

    site = serializers.CharField()
    ce = serializers.CharField()
    queue = serializers.CharField()
    fits = serializers.BooleanField(
        help_text="Whether a pilot in this queue may get the job, according to the configuration."
    )
    reasons = serializers.ListField(child=serializers.CharField(), help_text="All reasons why it does not fit.")


class ExplanationOut(serializers.Serializer[object]):
    """The reasons why a job waits; of a job that does not wait, the summary gives its state."""

    job_id = serializers.IntegerField()
    status = StatusField()
    summary = serializers.CharField(help_text="Explanation in one sentence.")
    task_queue = serializers.IntegerField(allow_null=True, help_text="Id of its task queue; null: it is in none.")
    priority_rank = serializers.IntegerField(
        allow_null=True,
        help_text="1 + number of task queues of the VO with a higher priority; null: the job does not wait, or "
        "no queue can run it.",
    )
    expected_share = serializers.FloatField(
        allow_null=True,
        help_text="Priority of its task queue, divided by the sum of its CPU segment, 0 to 1; 0: no queue can "
        "run it; null: the job does not wait.",
    )
    start_s = TimeRangeOut(
        allow_null=True, help_text="Time until a pilot gets it; null: it cannot be said, or the job does not wait."
    )
    conditions = ExplainedConditionOut(
        many=True, help_text="Conditions of the match, in their order, each evaluated by itself."
    )
    queues = ExplainedQueueOut(
        many=True, help_text=f"Queues that fit, then those that fail the fewest conditions; at most {MOST_QUEUES}."
    )
    limits = serializers.ListField(child=serializers.CharField(), help_text="Limits that hold the job back.")
    advice = serializers.ListField(
        child=serializers.CharField(),
        help_text="Changes of the job that would let it fit more queues, each evaluated by the conditions of the "
        "match; the most helpful first.",
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Warnings that a submission of this job would get now."
    )


class ExplainedTaskQueueOut(serializers.Serializer[object]):
    """Waiting jobs of one task queue, all of which wait for the same reasons."""

    task_queue = serializers.IntegerField(help_text="Id of the task queue.")
    jobs = serializers.IntegerField(help_text="Number of its jobs among those that were found.")
    example = serializers.IntegerField(help_text="Id of the oldest of them.")
    owner = serializers.CharField(help_text="Owner of its jobs.")
    group = serializers.CharField(help_text="Group of its jobs.")
    summary = serializers.CharField(help_text="Why they wait, in one or two sentences.")
    first_start_s = TimeRangeOut(
        allow_null=True, help_text="Time until a pilot gets the oldest of them; null: it cannot be said."
    )
    last_start_s = TimeRangeOut(allow_null=True, help_text="Time until a pilot gets the newest of them; null as above.")
    advice = serializers.ListField(child=serializers.CharField(), help_text="As of the explanation of one job.")


class ExplainedSelectionOut(serializers.Serializer[object]):
    """The reasons why the waiting jobs of a list wait."""

    jobs = serializers.IntegerField(help_text="Number of waiting jobs that were looked at.")
    has_more = serializers.BooleanField(help_text=f"Whether more than the newest {MOST_JOBS} wait.")
    task_queues = ExplainedTaskQueueOut(many=True, help_text=f"With most jobs first; at most {MOST_TASK_QUEUES}.")
    further_task_queues = serializers.IntegerField(help_text="Number of task queues that are not explained.")
    further_jobs = serializers.IntegerField(help_text="Number of their jobs.")


class ExplainSelectionView(GenericAPIView[Job]):
    """The explanation of the waiting jobs of a list."""

    permission_classes = (IsUser,)
    filterset_class = JobFilterSet

    @extend_schema(
        operation_id="jobs_explain_all",
        summary="Explain why the jobs of a list wait, by task queue",
        tags=[Audience.USERS],
        filters=True,
        responses={200: ExplainedSelectionOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Explain the waiting jobs that the caller may see; the filters of the list apply, and `status` is Waiting."""
        user, query = user_of(request), request.query_params.dict()
        filters = checked_filters(JobFilterSet, {**query, "status": JobStatus.WAITING.value})
        found = explain_selection(filters, by=user, now=database_now())
        task_queues = [_of_task_queue(each, reader=str(user)) for each in found.task_queues]
        answer = {name: getattr(found, name) for name in ("jobs", "has_more", "further_task_queues", "further_jobs")}
        return Response(ExplainedSelectionOut({**answer, "task_queues": task_queues}).data)


def _of_task_queue(each: ExplainedTaskQueue, *, reader: str) -> Mapping[str, object]:
    text, starts = worded(each.explanation, reader=reader), _starts_of(each.explanation)
    return {
        "task_queue": each.task_queue_id,
        "jobs": each.jobs,
        "example": each.example.pk,
        "owner": each.example.owner.username,
        "group": each.example.group.name,
        "summary": text.summary,
        "first_start_s": starts[0],
        "last_start_s": starts[-1],
        "advice": text.advice,
    }


def _starts_of(explained: Explanation) -> Sequence[TimeRange | None]:
    """Return the estimated starts; one None if there are none."""
    return (explained.findings.starts if explained.findings else ()) or (None,)


class ExplainView(APIView):
    """The explanation of one job."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="jobs_explain",
        summary="Explain why a job waits: condition by condition, queue by queue",
        tags=[Audience.USERS],
        parameters=[ExplainQuery],
        responses={200: ExplanationOut, **error_responses(400, 401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Compare the job with every queue of its VO, by the conditions of the match."""
        user = user_of(request)
        job = visible_job(user, pk)
        query = ExplainQuery.checked(request.query_params)
        task_queue_id: int | None = vars(job)["task_queue_id"]  # an annotation
        explained = explain(job, task_queue_id=task_queue_id, site=query.get("site"), now=database_now())
        rank = explained.standing
        answer = {
            "job_id": job.pk,
            "status": job.status,
            "task_queue": explained.task_queue_id,
            "priority_rank": None if rank is None else rank.rank,
            "expected_share": None if rank is None else rank.share,
            **asdict(worded(explained, reader=str(user))),
            "start_s": _starts_of(explained)[0],
        }
        return Response(ExplanationOut(answer).data)
