"""Responses of the endpoints for jobs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import GROUP_BY, Tally


@extend_schema_field({"type": "string", "enum": list(JobStatus)}, component_name="JobStatus")
class StatusField(serializers.ChoiceField):
    """A status of a job; a separate component of the schema, because other enumerations are named "status" too."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of the framework's field
        super().__init__(**{"choices": list(JobStatus), **options})


class SubmittedJobOut(serializers.Serializer[object]):
    """One accepted job."""

    id = serializers.IntegerField(help_text="Id of the job.")
    status = StatusField(
        help_text="Waiting: it can be matched. Checking: no site where it may run holds all of its input data."
    )
    task_queue = serializers.IntegerField(
        allow_null=True, help_text="Id of the task queue in which it waits; null: it is Checking."
    )


class FindingOut(serializers.Serializer[Any]):
    """One finding about descriptions, with its place and its cure."""

    field = serializers.CharField(source="finding.field", help_text="Field of the description.")
    file = serializers.CharField(source="finding.file", allow_null=True, help_text="Name of the file; null: none.")
    line = serializers.IntegerField(source="finding.line", allow_null=True, help_text="Line in it; null: none.")
    sentence = serializers.CharField(source="finding.sentence", help_text="What is wrong.")
    cure = serializers.CharField(source="finding.cure", help_text="What to do; empty: the sentence says it.")
    surely_fails = serializers.BooleanField(
        source="finding.surely_fails", help_text="Whether the jobs fail when they start; such are refused by `strict`."
    )
    first = serializers.IntegerField(help_text="Position in the request of the first of its jobs, from 0.")
    jobs = serializers.IntegerField(help_text="Number of its jobs.")


class SubmissionOut(serializers.Serializer[object]):
    """Response to a submission."""

    job_group_id = serializers.UUIDField(help_text="Id of this submission, for filters of lists.")
    jobs = SubmittedJobOut(many=True, help_text="Jobs in the order of the request.")
    warnings = serializers.ListField(
        child=serializers.CharField(),
        help_text="Parts of the descriptions that were accepted, but are probably mistakes; attributes of JDL and CFG "
        "that are ignored, or mean something else than in DIRAC.",
    )
    findings = FindingOut(many=True, help_text="Those of the warnings that have a place in a description or a file.")


class UsageOut(serializers.Serializer[Job]):
    """Resources used by a payload, as last reported by its pilot."""

    cpu_s = serializers.FloatField(allow_null=True, help_text="CPU time of all processes, in seconds.")
    wall_s = serializers.FloatField(allow_null=True, help_text="Wall-clock time since the start, in seconds.")
    memory_mb = serializers.FloatField(allow_null=True, source="max_memory_mb", help_text="Highest memory, in MB.")
    disk_mb = serializers.FloatField(allow_null=True, source="max_disk_mb", help_text="Highest disk space, in MB.")


class JobRowOut(serializers.Serializer[Job]):
    """One job as a row of a list."""

    id = serializers.IntegerField(help_text="Id of the job.")
    status = StatusField(help_text="Status of the job.")
    minor_status = serializers.CharField(help_text="Reason of the status, in words.")
    application_status = serializers.CharField(help_text="Status set by the payload itself.")
    task_queue = serializers.IntegerField(
        source="task_queue_id", allow_null=True, help_text="Id of its task queue while it waits, else null."
    )
    job_name = serializers.CharField(help_text="Name given by its owner.")
    job_group = serializers.CharField(help_text="Free label given by its owner.")
    job_group_id = serializers.UUIDField(source="submission_id", help_text="Id of its submission.")
    job_type = serializers.CharField(help_text="Type of the job.")
    priority = serializers.IntegerField(help_text="User priority, 0 to 10.")
    owner = serializers.CharField(source="owner.username", help_text="User name of its owner.")
    group = serializers.CharField(source="group.name", help_text="Group in which its owner acted.")
    vo = serializers.CharField(source="vo.name", help_text="VO of the group.")
    site = serializers.CharField(
        source="site.name", default=None, allow_null=True, help_text="Site of its last match; null: none."
    )
    ce = serializers.CharField(
        source="queue.ce.name", default=None, allow_null=True, help_text="Computing element of its last match."
    )
    queue = serializers.CharField(
        source="queue.name", default=None, allow_null=True, help_text="Batch queue of its last match."
    )
    pilot = serializers.IntegerField(source="pilot_id", allow_null=True, help_text="Id of the pilot of its last match.")
    reschedules = serializers.IntegerField(help_text="Number of times it was rescheduled.")
    submitted_at = serializers.DateTimeField(help_text="Time of submission.")
    status_changed_at = serializers.DateTimeField(help_text="Time of the last change of status.")
    matched_at = serializers.DateTimeField(allow_null=True, help_text="Time of its last match.")
    started_at = serializers.DateTimeField(allow_null=True, help_text="Start of its payload.")
    heartbeat_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last heartbeat.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Time at which it ended.")
    exit_code = serializers.IntegerField(allow_null=True, help_text="Exit code of the payload.")
    usage = UsageOut(source="*", help_text="Resources used by the payload.")
    has_output = serializers.SerializerMethodField(help_text="Whether an output sandbox can be downloaded.")

    def get_has_output(self, job: Job) -> bool:
        """Return whether an output sandbox was uploaded."""
        return job.output_sandbox_id is not None


class JobOut(JobRowOut):
    """One job with its description."""

    description = serializers.DictField(help_text="Complete description, defaults included.")
    submit_pools = serializers.ListField(
        child=serializers.CharField(),
        help_text="Submit pools in its description, or the one registered for its requirements.",
    )
    retry_of = serializers.IntegerField(
        source="predecessor", allow_null=True, help_text="Id of the job that it retries with changes; null: none."
    )
    retried_as = serializers.IntegerField(
        source="successor", allow_null=True, help_text="Id of the job that retries it with changes; null: none."
    )
    input_sites = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Sites that held all of its input data when it was queued; null: it has none.",
    )


class HistoryOut(serializers.Serializer[object]):
    """One change of a job's status."""

    changed_at = serializers.DateTimeField(help_text="Time of the change.")
    status = StatusField(help_text="Status after the change.")
    minor_status = serializers.CharField(help_text="Reason of the status, in words.")
    application_status = serializers.CharField(help_text="Status set by the payload itself.")
    source = serializers.CharField(  # type: ignore[assignment]  # the framework's attribute of this name is its own
        help_text="User or component that changed it."
    )


class PeekOut(serializers.Serializer[Job]):
    """The last lines that a payload has written."""

    id = serializers.IntegerField(help_text="Id of the job.")
    status = StatusField(help_text="Status of the job.")
    std_output = serializers.CharField(source="std_output_tail", help_text="Last lines of its standard output.")
    std_error = serializers.CharField(source="std_error_tail", help_text="Last lines of its standard error.")
    reported_at = serializers.DateTimeField(
        source="heartbeat_at",
        allow_null=True,
        help_text="Time at which its pilot sent them; null: nothing was sent yet.",
    )


class TallyOut(serializers.Serializer[Tally]):
    """Number of jobs with these values."""

    status = StatusField(required=False, help_text="Status; present if grouped by it.")
    site = serializers.CharField(
        required=False, allow_null=True, help_text="Site of the last match, null: none; present if grouped by it."
    )
    owner = serializers.CharField(required=False, help_text="User name of the owner; present if grouped by it.")
    group = serializers.CharField(required=False, help_text="Group; present if grouped by it.")
    job_type = serializers.CharField(required=False, help_text="Job type; present if grouped by it.")
    count = serializers.IntegerField(help_text="Number of jobs.")

    def to_representation(self, instance: Tally) -> dict[str, str | int | None]:
        """Return only the counted properties and the number."""
        return {**instance.values, "count": instance.count}


class SummaryOut(serializers.Serializer[object]):
    """Counts of jobs."""

    group_by = serializers.ListField(
        child=serializers.ChoiceField(choices=list(GROUP_BY)), help_text="Properties counted by, in this order."
    )
    results = TallyOut(many=True, help_text="One row for each combination that occurs.")


class RefusalOut(serializers.Serializer[object]):
    """One job that was not changed."""

    id = serializers.IntegerField(help_text="Id of the job.")
    code = serializers.CharField(help_text="Reason: not_found, illegal_transition or reschedule_limit.")


class BulkOut(serializers.Serializer[object]):
    """Result of a bulk action."""

    done = serializers.IntegerField(help_text="Number of changed jobs.")
    refused = RefusalOut(many=True, help_text="Jobs that were not changed, by id.")
