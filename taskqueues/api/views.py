"""The list of task queues with their priorities."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from taskqueues.filters import TaskQueueFilterSet
from taskqueues.models import TaskQueue
from taskqueues.queries import jobs_in
from wms.accounts.api.permissions import IsUser, user_of
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience


class TaskQueueOut(serializers.ModelSerializer[TaskQueue]):
    """One set of identical requirements with at least one job waiting; an empty list accepts anything."""

    owner = serializers.CharField(source="owner.username")
    group = serializers.CharField(source="group.name")
    vo = serializers.CharField(source="vo.name")
    jobs = serializers.SerializerMethodField(help_text="Number of waiting jobs in it.")

    class Meta:
        model = TaskQueue
        exclude = ("signature",)

    def get_jobs(self, task_queue: TaskQueue) -> int:
        """Return the number of jobs, counted for the whole page at once."""
        counts: dict[int, int] = self.context["jobs"]
        return counts.get(task_queue.pk, 0)


class TaskQueuePages(CursorPages):
    """Task queues by priority, highest first."""

    orderings = ("-priority", "priority", "-id", "id", "-cpu_time_s", "cpu_time_s")


class TaskQueueListView(GenericAPIView[TaskQueue]):
    """Task queues of the caller, of its sharing groups and of the VOs that it manages."""

    permission_classes = (IsUser,)
    serializer_class = TaskQueueOut
    pagination_class = TaskQueuePages
    filterset_class = TaskQueueFilterSet

    def get_queryset(self) -> QuerySet[TaskQueue]:
        """Return the queues that the caller may see."""
        queues = TaskQueue.objects.visible_to(user_of(self.request)).with_jobs()
        return queues.select_related("owner", "group", "vo")

    @extend_schema(
        operation_id="task_queues_list",
        summary="List task queues with their priorities; an operator sees all",
        tags=[Audience.USERS],
        responses={200: TaskQueueOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the framework keeps it on the view
        """Return one page of task queues that have a job."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        context = {"jobs": jobs_in([queue.pk for queue in page])}
        return self.get_paginated_response(TaskQueueOut(page, many=True, context=context).data)
