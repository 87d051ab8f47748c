"""Read-only admin pages of task queues and submit pools."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import (
    Case,
    Count,
    FloatField,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from taskqueues.models import QueuedJob, SubmitPool, TaskQueue
from wms.accounts.admin.rights import VOLevelLedger
from wms.kernel.admin.columns import with_unit
from wms.kernel.admin.rights import SeenRelatedFilter
from wms.kernel.names import in_percent
from wms.kernel.time_texts import duration

if TYPE_CHECKING:
    from django.contrib.admin.filters import _ListFilterChoices


class CPUTimeFilter(admin.AllValuesFieldListFilter):
    """A filter by CPU time, with its unit."""

    def choices(self, changelist: ChangeList) -> "Iterator[_ListFilterChoices]":
        """Return the choices."""
        for choice in super().choices(changelist):
            value: object = choice["display"]
            yield {**choice, "display": duration(value) if isinstance(value, int) else choice["display"]}


@admin.register(TaskQueue)
class TaskQueueAdmin(VOLevelLedger[TaskQueue]):
    """Task queues with their requirements and priorities, for operators and managers."""

    list_display = (
        *("id", "owner", "group"),
        with_unit("cpu_time_s", duration, description="CPU time"),
        *("part", "jobs", "sites", "platforms", "tags", "job_type"),
    )
    list_select_related = ("owner", "group")
    list_filter = (("vo", SeenRelatedFilter), ("group", SeenRelatedFilter), ("cpu_time_s", CPUTimeFilter), "job_type")
    searched_exactly = ("id", "owner__username")
    search_help_text = "Id of the task queue, or user name of its owner."
    ordering = ("-id",)
    exclude = ("signature",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the queues of the VOs."""
        return Q(vo__in=vos)

    def get_queryset(self, request: HttpRequest) -> QuerySet[TaskQueue]:
        """Return the queues, each with the number of its jobs and the sum of the priorities of its VO."""
        waiting = QueuedJob.objects.filter(task_queue=OuterRef("pk")).order_by().values("task_queue")
        count = Subquery(waiting.annotate(jobs=Count("pk")).values("jobs"), output_field=IntegerField())
        sums = TaskQueue.objects.order_by().values_list("vo").annotate(sum=Sum("priority"))
        of_vo = Case(
            *(When(vo=vo, then=Value(sum_)) for vo, sum_ in sums), default=Value(0.0), output_field=FloatField()
        )
        return super().get_queryset(request).annotate(jobs=Coalesce(count, 0), all_priorities=of_vo)

    @admin.display(description="priority, of its VO", ordering="priority")
    def part(self, row: TaskQueue) -> str:
        """Return the part of the priorities of all task queues of the VO."""
        return in_percent(row.priority / (vars(row)["all_priorities"] or 1.0))

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
