"""The form above the list of jobs."""

from uuid import UUID

from django import forms

from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries import JobFilter

ALL = "all"


class FilterForm(forms.Form):
    """Which jobs are shown; what is empty does not narrow."""

    status = forms.ChoiceField(
        required=False, choices=[("", "any but Deleted"), *((status, status) for status in JobStatus)]
    )
    job_name = forms.CharField(required=False, max_length=255, label="Name", help_text="The whole name.")
    group = forms.CharField(required=False, max_length=64)
    whose = forms.ChoiceField(
        required=False, choices=[("", "mine"), (ALL, "all that I may see")], help_text="Group mates', your VO's …"
    )
    job_group_id = forms.UUIDField(required=False, label="Submission")

    def filters(self, user: User, *, with_status: bool = True) -> JobFilter:
        """Return the filter; a field that is wrong does not narrow, its error is shown beside it.

        Args:
            user: who asks, and whose jobs are shown unless all are asked for.
            with_status: False: jobs of every status.
        """
        self.full_clean()
        given = self.cleaned_data
        status: str = given.get("status", "")
        job_group_id: UUID | None = given.get("job_group_id")
        return JobFilter(
            status=frozenset({JobStatus(status)}) if status and with_status else frozenset(),
            owner=None if given.get("whose") == ALL else user.username,
            job_name=given.get("job_name") or None,
            group=given.get("group") or None,
            job_group_id=job_group_id,
        )
