"""Admin pages of jobs, read-only; actions on jobs are in the portal and the REST interface."""

import json

from django.contrib import admin
from django.db.models import Q

from wms.accounts.admin.rights import VOLevelInline, VOLevelLedger
from wms.jobs.models import Job, JobHistory
from wms.kernel.admin.rights import SeenRelatedFilter


class HistoryInline(VOLevelInline[JobHistory]):
    """Every change of the job's status, oldest first."""

    model = JobHistory
    operators_may = frozenset({"view"})
    managers_may = frozenset({"view"})
    ordering = ("pk",)
    fields = ("changed_at", "status", "minor_status", "application_status", "source")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return those of the VOs' jobs."""
        return Q(job__vo__in=vos)


@admin.register(Job)
class JobAdmin(VOLevelLedger[Job]):
    """Jobs of the VO, whoever owns them; for operators and managers."""

    list_display = ("id", "status", "minor_status", "owner", "group", "site", "job_name", "submitted_at")
    list_select_related = ("owner", "group", "site")
    list_filter = ("status", ("vo", SeenRelatedFilter), ("group", SeenRelatedFilter), ("site", SeenRelatedFilter))
    searched_exactly = ("id", "owner__username")
    search_help_text = "Id of the job, or user name of its owner. The portal finds jobs by name."
    ordering = ("-id",)
    inlines = (HistoryInline,)
    # Stored in other tables; lists do not load them.
    readonly_fields = ("complete_description", "std_output_tail", "std_error_tail")
    exclude = ("stored_description",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the jobs of the VOs."""
        return Q(vo__in=vos)

    @admin.display(description="description")
    def complete_description(self, job: Job) -> str:
        """Return the description as JSON text."""
        return json.dumps(job.description, ensure_ascii=False)
