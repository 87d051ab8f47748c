"""Responses of the endpoints for jobs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import GROUP_BY, JobCount


@extend_schema_field({"type": "string", "enum": list(JobStatus)}, component_name="JobStatus")
class StatusField(serializers.ChoiceField):
    """A status of a job; a separate component of the schema, because other enumerations are named "status" too."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of the framework's field
        super().__init__(**{"choices": list(JobStatus), **options})


class SubmittedJobOut(serializers.Serializer[Any]):
    """One accepted job."""

    id = serializers.IntegerField(help_text="Its id.")
    status = StatusField(help_text="Waiting: it can be matched. Checking: no site may take it, for want of input data.")
    task_queue = serializers.IntegerField(
        allow_null=True, help_text="Id of the task queue in which it waits; null: it is Checking."
    )


class SubmissionOut(serializers.Serializer[Any]):
    """Response to a submission."""

    job_group_id = serializers.UUIDField(help_text="Of all jobs of this request; lists can be narrowed to it.")
    jobs = SubmittedJobOut(many=True, help_text="In the order of the request.")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What was accepted though it may not be meant."
    )


class UsageOut(serializers.Serializer[Job]):
    """Resources used by a payload, as last reported by its pilot."""

    cpu_s = serializers.FloatField(allow_null=True, help_text="CPU seconds of all its processes.")
    wall_s = serializers.FloatField(allow_null=True, help_text="Seconds since it began.")
    memory_mb = serializers.FloatField(allow_null=True, source="max_memory_mb", help_text="Highest memory, in MB.")
    disk_mb = serializers.FloatField(allow_null=True, source="max_disk_mb", help_text="Highest disk space, in MB.")


class JobRowOut(serializers.Serializer[Job]):
    """One job as a row of a list."""

    id = serializers.IntegerField(help_text="Its id.")
    status = StatusField(help_text="Where it is in its life.")
    minor_status = serializers.CharField(help_text="Why, in words.")
    application_status = serializers.CharField(help_text="What the payload says of itself.")
    task_queue = serializers.IntegerField(
        source="task_queue_id", allow_null=True, help_text="Id of its queue while it waits, else null."
    )
    job_name = serializers.CharField(help_text="Given by its owner.")
    job_group = serializers.CharField(help_text="Free label given by its owner.")
    job_group_id = serializers.UUIDField(source="submission_id", help_text="The submission that brought it.")
    job_type = serializers.CharField(help_text="Type of the job.")
    priority = serializers.IntegerField(help_text="User priority, 0 to 10.")
    owner = serializers.CharField(source="owner.username", help_text="User name of its owner.")
    group = serializers.CharField(source="group.name", help_text="The group that its owner acted in.")
    vo = serializers.CharField(source="vo.name", help_text="The group's VO.")
    site = serializers.CharField(source="site.name", default=None, allow_null=True, help_text="Where it was matched.")
    ce = serializers.CharField(source="queue.ce.name", default=None, allow_null=True, help_text="Computing element.")
    queue = serializers.CharField(source="queue.name", default=None, allow_null=True, help_text="Batch queue.")
    pilot = serializers.IntegerField(source="pilot_id", allow_null=True, help_text="Id of the pilot.")
    reschedules = serializers.IntegerField(help_text="How often it went back to its queue.")
    submitted_at = serializers.DateTimeField(help_text="When it was submitted.")
    status_changed_at = serializers.DateTimeField(help_text="When it got its status.")
    matched_at = serializers.DateTimeField(allow_null=True, help_text="When a pilot got it.")
    started_at = serializers.DateTimeField(allow_null=True, help_text="When its payload began.")
    heartbeat_at = serializers.DateTimeField(allow_null=True, help_text="Last sign of life.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When it ended.")
    exit_code = serializers.IntegerField(allow_null=True, help_text="Of the payload.")
    usage = UsageOut(source="*", help_text="What the payload has used.")
    has_output = serializers.SerializerMethodField(help_text="Whether there is an output sandbox to fetch.")

    def get_has_output(self, job: Job) -> bool:
        """Return whether an output sandbox was uploaded."""
        return job.output_sandbox_id is not None


class JobOut(JobRowOut):
    """One job with its description."""

    description = serializers.DictField(help_text="Every field of the description, defaults included.")
    submit_pools = serializers.ListField(
        child=serializers.CharField(), help_text="Asked for, or registered for its requirements."
    )
    input_sites = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Sites that hold all of its input data, as of when it was put into a queue; null: it has none.",
    )


class HistoryOut(serializers.Serializer[Any]):
    """One change of a job's status."""

    changed_at = serializers.DateTimeField(help_text="When.")
    status = StatusField(help_text="The status from then on.")
    minor_status = serializers.CharField(help_text="Why, in words.")
    application_status = serializers.CharField(help_text="What the payload says of itself.")
    source = serializers.CharField(  # type: ignore[assignment]  # the framework's attribute of this name is its own
        help_text="Who or what changed it."
    )


class PeekOut(serializers.Serializer[Job]):
    """The last lines that a payload has written."""

    id = serializers.IntegerField(help_text="The job.")
    status = StatusField(help_text="Its status.")
    std_output = serializers.CharField(source="std_output_tail", help_text="Last lines of its standard output.")
    reported_at = serializers.DateTimeField(
        source="heartbeat_at", allow_null=True, help_text="When its pilot sent them; null: nothing was sent yet."
    )


class TallyOut(serializers.Serializer[JobCount]):
    """Number of jobs with these values."""

    status = StatusField(required=False, help_text="If counted by it.")
    site = serializers.CharField(required=False, allow_null=True, help_text="If counted by it; null: matched nowhere.")
    owner = serializers.CharField(required=False, help_text="If counted by it.")
    group = serializers.CharField(required=False, help_text="If counted by it.")
    job_type = serializers.CharField(required=False, help_text="If counted by it.")
    count = serializers.IntegerField(help_text="Number of jobs.")

    def to_representation(self, instance: JobCount) -> dict[str, str | int | None]:
        """Return only the counted properties and the number."""
        return {**instance.values, "count": instance.count}


class SummaryOut(serializers.Serializer[Any]):
    """Counts of jobs."""

    group_by = serializers.ListField(child=serializers.ChoiceField(choices=list(GROUP_BY)), help_text="In this order.")
    results = TallyOut(many=True, help_text="One for each combination that occurs.")


class RefusalOut(serializers.Serializer[Any]):
    """One job that was not changed."""

    id = serializers.IntegerField(help_text="Its id.")
    code = serializers.CharField(help_text="Why: not_found, illegal_transition or reschedule_limit.")


class BulkOut(serializers.Serializer[Any]):
    """Result of a bulk action."""

    done = serializers.IntegerField(help_text="Number of jobs that it was done to.")
    refused = RefusalOut(many=True, help_text="The others, by id.")
