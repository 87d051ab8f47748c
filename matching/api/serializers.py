"""Bodies and answers of the match and of the work on a lease."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from matching.api.data import LeaseDataOut, data_out
from matching.queries.preview import Preview
from matching.services import job_tokens
from matching.services.claim import Claimed
from matching.services.data import LeaseData
from matching.services.leases import LeaseRenewal, Usage
from matching.services.offers import OfferRequest
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.rest import FastSerializer, Flag, Name, Number, StrictSerializer, Text, WholeNumber

MAX_NAME = 255
MAX_NAMES = 1000
MAX_JOBS = 100
MAX_OUTPUT_TAIL = 16 * 1024
#: Seconds and megabytes of one payload; more is a mistake of units.
LARGEST = 10**12
#: PostgreSQL's integer, which the compared columns are.
LARGEST_INTEGER = 2**31 - 1


def names(help_text: str) -> serializers.ListField:
    """Return the field of a list of names that may be left out."""
    return serializers.ListField(
        child=Name(max_length=MAX_NAME), max_length=MAX_NAMES, required=False, help_text=help_text
    )


class OfferIn(FastSerializer):
    """What a slot offers; see the fields for what leaving one out means."""

    vo = Name(max_length=MAX_NAME, required=False, help_text="The pilot's VO.")
    setup = Name(max_length=MAX_NAME, required=False, help_text="Left out: the VO's default; never any.")
    site = Name(
        max_length=MAX_NAME,
        required=False,
        help_text="Left out: the pilot's own; a pilot that names another than its own is refused. In a preview, left "
        "out or ANY: not compared. A pilot made by hand that leaves it out may be at any site of its VO, and what is "
        "not known can only narrow: a requirement, ban or platform counts as met only if every queue where the pilot "
        "may be meets it, a possible place that is banned or throttled closes, and jobs within a limit of such a "
        "place are not given.",
    )
    ce = Name(max_length=MAX_NAME, required=False, help_text="As site, of the computing elements there.")
    queue = Name(max_length=MAX_NAME, required=False, help_text="As site, of the queues there.")
    platforms = names(
        "Of the node. Jobs fit that run on platforms configured at the queue and on those of the node (a site may say "
        "that containers settle it); where the queue configures none, on those of the node. Left out: what the node "
        "reported, else as configured at the queue. In a preview, left out: not compared."
    )
    cpu_time_s = WholeNumber(
        min_value=0, max_value=LARGEST_INTEGER, help_text="Reference-core CPU seconds left, per core."
    )
    tags = names("Offered to jobs that ask for them.")
    required_tags = names(
        "Only jobs that ask for all of these are taken; each must be among the tags. Those of the queue hold too."
    )
    processors = WholeNumber(min_value=1, max_value=LARGEST_INTEGER, default=1, help_text="Cores of the slot.")
    memory_mb = WholeNumber(
        min_value=0, max_value=LARGEST_INTEGER, default=0, help_text="Of the slot; 0: only jobs that ask no memory."
    )
    wall_time_s = WholeNumber(
        min_value=0,
        max_value=LARGEST_INTEGER,
        required=False,
        help_text="Seconds until the slot ends. Left out: those of the queue, else not limited.",
    )
    gpus = WholeNumber(min_value=0, max_value=LARGEST_INTEGER, default=0, help_text="Of the slot.")
    disk_mb = WholeNumber(
        min_value=0, max_value=LARGEST_INTEGER, default=0, help_text="Of the slot; 0: only jobs that ask no disk."
    )
    container = Flag(default=False, help_text="Whether the slot can run containers.")
    job_types = names("Taken; left out: those of the queue, or those of all queues where the pilot may be, else all.")
    submit_pools = names(
        "Left out: as the server knows for the queue, or for all queues where the pilot may be; given, it only narrows."
    )
    grid_middleware = Name(max_length=MAX_NAME, required=False, help_text="Recorded, not compared.")
    request_id = serializers.UUIDField(help_text="Asked again with the same id: the same leases.")
    max_jobs = WholeNumber(
        min_value=1,
        max_value=MAX_JOBS,
        required=False,
        help_text="Up to so many leases, each taking its processors, memory, GPUs and disk from the rest; a list.",
    )

    @classmethod
    def offer_of(cls, values: dict[str, Any]) -> OfferRequest:
        """Return the offer in the checked values of a body."""
        lists = {
            name: tuple(values[name]) if name in values else None for name in ("platforms", "job_types", "submit_pools")
        }
        return OfferRequest(
            vo=values.get("vo"),
            setup=values.get("setup"),
            site=values.get("site"),
            ce=values.get("ce"),
            queue=values.get("queue"),
            cpu_time_s=values["cpu_time_s"],
            tags=tuple(values.get("tags", ())),
            required_tags=tuple(values.get("required_tags", ())),
            processors=values["processors"],
            memory_mb=values["memory_mb"],
            wall_time_s=values.get("wall_time_s"),
            gpus=values["gpus"],
            disk_mb=values["disk_mb"],
            container=values["container"],
            **lists,
        )


class PreviewIn(OfferIn):
    """An offer, of which nothing is claimed."""

    request_id = serializers.UUIDField(required=False, help_text="Ignored.")
    owner = Name(max_length=MAX_NAME, required=False, help_text="Of a private pilot whose group does not share jobs.")
    group = Name(max_length=MAX_NAME, required=False, help_text="Makes it a private pilot of this group.")


class LeaseOut(serializers.Serializer[Any]):
    """A lease on one job."""

    match_id = serializers.UUIDField()
    expires_at = serializers.DateTimeField(help_text="Unless renewed by a report before.")
    token = serializers.CharField(help_text="Opens this lease only.")
    job = serializers.DictField(help_text="id, owner, group, input_sandboxes, and the whole description.")
    job_data = LeaseDataOut(required=False, help_text="Only for a job with input_data or output_data.")


class LeasesOut(serializers.Serializer[Any]):
    """The answer to an offer with max_jobs."""

    leases = LeaseOut(many=True)


class StatusIn(StrictSerializer):
    """How far the job has come."""

    status = serializers.ChoiceField(choices=[JobStatus.RUNNING, JobStatus.COMPLETING])
    minor_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)
    application_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)


def _measure(help_text: str) -> Number:
    return Number(min_value=0, max_value=LARGEST, required=False, allow_null=True, help_text=help_text)


class UsageIn(FastSerializer):
    """What the payload has used; left out: not measured."""

    cpu_s = _measure("CPU time of all its processes.")
    wall_s = _measure("Since its start.")
    memory_mb = _measure("Resident, of all its processes.")
    disk_mb = _measure("Of its directory.")

    @classmethod
    def usage_of(cls, values: dict[str, Any]) -> Usage:
        """Return the usage in the checked values of a body."""
        return Usage(**{name: values.get(name) for name in ("cpu_s", "wall_s", "memory_mb", "disk_mb")})


class HeartbeatIn(UsageIn):
    """A sign of life."""

    std_output = Text(
        max_length=MAX_OUTPUT_TAIL, required=False, allow_blank=True, help_text="Last lines of standard output."
    )
    acknowledged = serializers.ListField(
        child=WholeNumber(), max_length=1000, required=False, help_text="Ids of commands that were obeyed."
    )


class FinishIn(StrictSerializer):
    """The end of a payload."""

    exit_code = WholeNumber(
        min_value=-LARGEST_INTEGER,
        max_value=LARGEST_INTEGER,
        allow_null=True,
        help_text="0: Done. 222: back to its queue. Anything else, or null when it had none: Failed.",
    )
    minor_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)
    usage = UsageIn()
    output_sandbox = Text(max_length=MAX_NAME, required=False, allow_null=True, help_text="As uploaded on this lease.")
    fault = serializers.ChoiceField(
        choices=["job", "supervisor"],
        required=False,
        allow_null=True,
        help_text=(
            "job: it ended because the node does not have what the job itself asks for (software, input data, image,"
            " executable); that does not count against the node. Only with exit code null, 126, 127 or 222; ignored"
            " with others, for such a payload has run. supervisor: the pilot's process for the job died; with exit code"
            " 222. A job during which that happens too often fails. Left out or null: nothing is said of that."
        ),
    )


class CommandOut(serializers.Serializer[Any]):
    """An order to the pilot, repeated until acknowledged."""

    id = serializers.IntegerField()
    name = serializers.CharField(help_text="kill: stop the payload; drain: ask for no other job. Acknowledge either.")
    arguments = serializers.DictField()


class AnswerOut(serializers.Serializer[Any]):
    """The answer to a report."""

    commands = CommandOut(many=True)
    expires_at = serializers.DateTimeField(help_text="The end of the lease, unless renewed.")
    token = serializers.CharField(required=False, help_text="To be used from now on.")


class FinishedOut(serializers.Serializer[Any]):
    """The answer to the end of a payload."""

    status = serializers.CharField(help_text="Of the job now.")


class PreviewQueueOut(serializers.Serializer[Any]):
    """One task queue that fits."""

    id = serializers.IntegerField()
    owner = serializers.CharField()
    group = serializers.CharField()
    cpu_time_s = serializers.IntegerField(help_text="CPU segment.")
    priority = serializers.FloatField()
    jobs = serializers.IntegerField()
    chance = serializers.FloatField(help_text="That exactly this offer, made now and alone, gets a job of this queue.")


class ConditionOut(serializers.Serializer[Any]):
    """One condition of the match."""

    name = serializers.CharField()
    left = serializers.IntegerField(help_text="Task queues left after this condition and all before it.")


class PreviewOut(serializers.Serializer[Any]):
    """What an offer would get."""

    task_queues = PreviewQueueOut(many=True)
    conditions = ConditionOut(many=True)


def answer_out(answer: LeaseRenewal, *, token: str | None) -> dict[str, Any]:
    """Return the answer to a report; with a new token when the one that was used is about to end."""
    commands = [{"id": c.pk, "name": c.name, "arguments": c.arguments} for c in answer.commands]
    out = {"commands": commands, "expires_at": answer.expires_at}
    return out if token is None else {**out, "token": token}


def lease_out(lease: Claimed, *, data: LeaseData | None, now: datetime) -> dict[str, Any]:
    """Return a lease, its token and the job, with its data if it has any, as the pilot needs it."""
    return {
        "match_id": lease.match_id,
        "expires_at": lease.expires_at,
        "token": job_tokens.issue(lease.match_id, job_id=lease.job_id, now=now),
        "job": {
            **lease.description,
            "id": lease.job_id,
            "owner": lease.owner,
            "group": lease.group_name,
            "input_sandboxes": lease.input_sandboxes,
        },
        **({} if data is None else {"job_data": data_out(data)}),
    }


def preview_out(seen: Preview) -> dict[str, Any]:
    """Return a preview as it is answered."""
    queues = [
        {
            "id": queue.task_queue.pk,
            "owner": queue.task_queue.owner.username,
            "group": queue.task_queue.group.name,
            "cpu_time_s": queue.task_queue.cpu_time_s,
            "priority": queue.task_queue.priority,
            "jobs": queue.jobs,
            "chance": queue.chance,
        }
        for queue in seen.task_queues
    ]
    return {"task_queues": queues, "conditions": [{"name": n, "left": left} for n, left in seen.left.items()]}
