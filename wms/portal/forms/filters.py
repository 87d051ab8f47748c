"""The form above the list of jobs."""

from collections.abc import Collection

from django_filters import ChoiceFilter

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries.filtering import Rows

ALL = "all"


class JobPageFilterSet(JobFilterSet):
    """Filters of the page of jobs: an empty or wrong value is ignored; jobs of others only with ``whose=all``."""

    status = ChoiceFilter(
        label="Status", choices=[(status, status) for status in JobStatus], empty_label="any but Deleted"
    )
    whose = ChoiceFilter(
        "owner",
        method="keep_all",
        label="Whose",
        choices=[(ALL, "all that I may see")],
        empty_label="mine",
        help_text="all: also jobs of group mates, and of VOs that you manage.",
    )
    # Not on the page; None removes an inherited filter.
    site = owner = vo = job_group = job_type = exit_code = None  # type: ignore[assignment]
    submitted_after = submitted_before = None  # type: ignore[assignment]

    def always_narrowed(self) -> Collection[str]:
        """Return the owner, unless all jobs are asked for."""
        return () if self.form.cleaned_data.get("whose") == ALL else ("owner",)

    def filter_queryset(self, queryset: Rows, *, but: Collection[str] = ()) -> Rows:
        """Return the matching rows."""
        if self.always_narrowed() and "owner" not in but:
            queryset = queryset.filter(owner=self.request.user)
        return super().filter_queryset(queryset, but=but)

    def keep_all(self, queryset: Rows, _name: str, _value: str) -> Rows:
        """Return all jobs, for ``whose=all``: without it, ``filter_queryset`` keeps the caller's own."""
        return queryset
