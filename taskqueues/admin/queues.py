"""Read-only admin pages of task queues and submit pools."""

from django.contrib import admin
from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from taskqueues.models import QueuedJob, SubmitPool, TaskQueue
from wms.accounts.admin.rights import VOLevelLedger
from wms.kernel.admin.rights import SeenRelatedFilter


@admin.register(TaskQueue)
class TaskQueueAdmin(VOLevelLedger[TaskQueue]):
    """Task queues with their requirements and priorities, for operators and managers."""

    list_display = ("id", "owner", "group", "cpu_time_s", "priority", "jobs", "sites", "platforms", "tags", "job_type")
    list_select_related = ("owner", "group")
    list_filter = (("vo", SeenRelatedFilter), ("group", SeenRelatedFilter), "cpu_time_s", "job_type")
    searched_exactly = ("id", "owner__username")
    search_help_text = "Id of the task queue, or user name of its owner."
    ordering = ("-id",)
    exclude = ("signature",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the queues of the VOs."""
        return Q(vo__in=vos)

    def get_queryset(self, request: HttpRequest) -> QuerySet[TaskQueue]:
        """Return the queues, each with the number of its jobs."""
        waiting = QueuedJob.objects.filter(task_queue=OuterRef("pk")).order_by().values("task_queue")
        count = Subquery(waiting.annotate(jobs=Count("pk")).values("jobs"), output_field=IntegerField())
        return super().get_queryset(request).annotate(jobs=Coalesce(count, 0))

    @admin.display(description="jobs", ordering="jobs")
    def jobs(self, row: TaskQueue) -> int:
        """Return the annotated number."""
        count: int = vars(row)["jobs"]
        return count


@admin.register(SubmitPool)
class SubmitPoolAdmin(VOLevelLedger[SubmitPool]):
    """Submit pools with the number of queues that satisfy them, for operators and managers (RFC7)."""

    list_display = ("short_id", "vo", "requirements", "queue_count", "refreshed_at", "last_used_at")
    list_select_related = ("vo",)
    list_filter = (("vo", SeenRelatedFilter),)
    search_fields = ("id__startswith",)
    search_help_text = "Beginning of the id."
    ordering = ("id",)
    fields = ("id", "vo", "requirements", "queue_names", "refreshed_at", "last_used_at")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the pools of the VOs."""
        return Q(vo__in=vos)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SubmitPool]:
        """Return the pools, each with the number of its queues."""
        return super().get_queryset(request).annotate(queue_count=Count("queues"))

    @admin.display(description="id")
    def short_id(self, row: SubmitPool) -> str:
        """Return the beginning of the digest."""
        return f"{row.pk[:12]}…"

    @admin.display(description="queues", ordering="queue_count")
    def queue_count(self, row: SubmitPool) -> int:
        """Return the annotated number."""
        count: int = vars(row)["queue_count"]
        return count

    @admin.display(description="eligible queues")
    def queue_names(self, row: SubmitPool) -> str:
        """Return the queues as site / CE / queue."""
        queues = row.queues.select_related("ce__site").order_by("ce__site__name", "ce__name", "name")
        return "\n".join(f"{queue.ce.site} / {queue.ce} / {queue}" for queue in queues) or "none"
