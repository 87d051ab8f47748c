"""Filters of the lists of jobs, for REST and the portal."""

import re
from collections.abc import Collection
from typing import Final

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, QuerySet
from django_filters import CharFilter, Filter, FilterSet, UUIDFilter

from taskqueues.models import QueuedJob
from wms.jobs.domain.causes import KEY_LENGTH, LOST_OUTPUT, NO_CAUSE
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobOnHost, OutputTail
from wms.jobs.queries.filtering import Rows, field_of
from wms.kernel.filters import NameFilter, PatternFilter, ZonedTimeFilter
from wms.kernel.names import did_you_mean

_STATUSES = {status.casefold(): status for status in JobStatus}

#: Ids and ranges of one filter: as many as fit into the address of a request.
MOST_IDS: Final = 500
_ID_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_CAUSE = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")


class StatusesField(forms.CharField):
    """Job statuses: a list with commas, or a JSON list; letter case does not count."""

    def to_python(self, value: object) -> frozenset[JobStatus] | None:  # type: ignore[override]  # not one text
        """Return the statuses; None: not narrowed."""
        if value in self.empty_values:
            return None
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValidationError("Name statuses, separated by commas, such as Waiting,Running.")
        statuses = []
        for name in names:
            status = _STATUSES.get(name.strip().casefold())
            if status is None:
                hint = did_you_mean(name.strip()[:64], JobStatus) or f" The statuses are {', '.join(JobStatus)}."
                raise ValidationError(f'There is no status "{name.strip()[:64]}".{hint}')
            statuses.append(status)
        return frozenset(statuses)


class StatusFilter(CharFilter):
    """Jobs in any of several statuses."""

    field_class = StatusesField


class IntegerFilter(Filter):
    """Jobs with exactly this integer."""

    field_class = forms.IntegerField


class IdsField(forms.CharField):
    """Ids of jobs: numbers and ranges such as 69-75, with commas."""

    def to_python(self, value: object) -> tuple[range, ...]:  # type: ignore[override]  # not one text
        """Return the ranges; empty: not narrowed."""
        if value in self.empty_values:
            return ()
        ranges = [_ID_RANGE.fullmatch(each.strip()) for each in str(value).split(",")]
        ids = [range(int(each[1]), int(each[2] or each[1]) + 1) for each in ranges if each is not None]
        if len(ids) < len(ranges) or not all(ids):
            raise ValidationError("Give ids of jobs and ranges, with commas, such as 69,70,75-80.")
        if len(ids) > MOST_IDS:
            raise ValidationError(f"Give at most {MOST_IDS} ids and ranges.")
        return tuple(ids)


class IdsFilter(CharFilter):
    """Jobs by their ids."""

    field_class = IdsField

    def filter(self, qs: QuerySet[Job], value: tuple[range, ...]) -> QuerySet[Job]:
        """Return the matching rows."""
        if not value:
            return qs
        # Uses index: jobs_job_pkey
        wanted = Q(pk__in=[each[0] for each in value if len(each) == 1])
        for each in value:
            if len(each) > 1:
                wanted |= Q(pk__range=(each[0], each[-1]))
        return qs.filter(wanted)


class HostFilter(NameFilter):
    """Jobs whose last match was on a host."""

    def filter(self, qs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """Return the matching rows."""
        # Uses index: pilot_latest_on_host, a_request_of_a_pilot_gets_its_leases_once
        return qs.filter(pk__in=JobOnHost.objects.filter(host_name=value).values("job")) if value else qs


class TaskQueueFilter(IntegerFilter):
    """Jobs that wait in a task queue."""

    def filter(self, qs: QuerySet[Job], value: int | None) -> QuerySet[Job]:
        """Return the matching rows."""
        # Uses index: queued_job_oldest_of_its_kind
        return qs if value is None else qs.filter(pk__in=QueuedJob.objects.filter(task_queue=value).values("pk"))


class CauseField(forms.CharField):
    """The key of a cause, NO_CAUSE, or LOST_OUTPUT."""

    def to_python(self, value: object) -> str:
        """Return the key; empty: not narrowed."""
        key = str(super().to_python(value) or "").strip().casefold()
        if key and key not in {NO_CAUSE, LOST_OUTPUT} and not _CAUSE.fullmatch(key):
            raise ValidationError("Give the key of a cause, as the list of failures has it, or none, or lost.")
        return key


class CauseFilter(CharFilter):
    """Jobs whose payload failed for one kind of causes, or whose output is lost."""

    field_class = CauseField

    def filter(self, qs: QuerySet[Job], value: str) -> QuerySet[Job]:
        """Return the matching rows."""
        if not value:
            return qs
        # Uses index: jobs_outputtail_pkey, output_tail_by_cause
        tails = OutputTail.objects.filter(job=OuterRef("pk"), attempt=OuterRef("reschedules"))
        if value == NO_CAUSE:
            return qs.filter(~Exists(tails.exclude(cause="")))
        return qs.filter(Exists(tails.filter(cause=value)))


class JobFilterSet(FilterSet):
    """Filters of jobs; all criteria must hold. Deleted jobs are left out unless that status is named."""

    status = StatusFilter(
        lookup_expr="in", max_length=255, help_text="One status, or several with commas; letter case is ignored."
    )
    id = IdsFilter(label="Ids", help_text="Ids of jobs and ranges, with commas, such as 69,70,75-80.")
    site = NameFilter("site__name", max_length=128, help_text="Exact name of the site of the last match.")
    host = HostFilter("hosts", max_length=255, help_text="Exact name of the host of the last match.")
    owner = NameFilter("owner__username", max_length=150, help_text="Exact user name of the owner.")
    group = NameFilter(
        "group__name", max_length=64, label="Group", help_text="Exact name of the group in which the owner acted."
    )
    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
    job_name = PatternFilter(
        max_length=255, label="Name", help_text="Name of the job; each * stands for any characters, as in sim-*."
    )
    job_group = NameFilter(max_length=255, help_text="Exact label given by the owner.")
    job_group_id = UUIDFilter("submission", label="Submission", help_text="Id of the submission (job group).")
    job_type = NameFilter(max_length=255, help_text="Exact type of the job.")
    # As ids: a task queue has few of all jobs.
    task_queue = TaskQueueFilter(
        "id", label="Task queue", min_value=0, max_value=2**63 - 1, help_text="Id of the task queue in which jobs wait."
    )
    exit_code = IntegerFilter(min_value=-(2**31), max_value=2**31 - 1, help_text="Exit code of the payload.")
    minor_status = PatternFilter(
        max_length=255, label="Reason", help_text="Reason of the status, in words; each * stands for any characters."
    )
    cause = CauseFilter(
        "output_tails",
        max_length=16,
        help_text="Key of the cause of a failure; none: none is known; lost: Done without all of its output.",
    )
    submitted_after = ZonedTimeFilter("submitted_at", "gte", help_text="Submitted at this time (RFC 3339) or later.")
    submitted_before = ZonedTimeFilter("submitted_at", "lt", help_text="Submitted before this time (RFC 3339).")

    class Meta:
        model = Job
        fields = ()

    def always_narrowed(self) -> Collection[str]:
        """Return the fields by which ``filter_queryset`` narrows although no value is given."""
        return ()

    def filter_queryset(self, queryset: Rows, *, but: Collection[str] = ()) -> Rows:
        """Return the matching rows: jobs, or numbers of jobs.

        An invalid value, which a page shows at its field, does not narrow; nor does a field that the rows do not have.

        Args:
            queryset: the rows.
            but: fields of a job that are not compared.
        """
        compared = {field.name for field in queryset.model._meta.get_fields()}.difference(but)
        if queryset.model is not Job:
            compared.discard("id")  # of a number of jobs, not of a job
        if "status" in compared and not self.form.cleaned_data.get("status"):
            queryset = queryset.exclude(status=JobStatus.DELETED)
        for name, value in self.form.cleaned_data.items():
            if field_of(self.filters[name]) in compared:
                queryset = self.filters[name].filter(queryset, value)
        return queryset
