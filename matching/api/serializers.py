"""Bodies and answers of the match and of reports on a lease."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from rest_framework import serializers
from rest_framework.fields import empty

from matching.api.data import LeaseDataOut, data_out
from matching.queries.preview import Preview
from matching.services import job_tokens
from matching.services.claim import Claimed
from matching.services.data import LeaseData
from matching.services.leases import LeaseRenewal
from matching.services.offers import OfferRequest
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.fast.serializers import FastSerializer
from wms.kernel.rest import Flag, Name, Number, Text, WholeNumber
from wms.wire.amounts import AMOUNTS, Amount
from wms.wire.protocol import FAULT_OF_JOB, FAULT_OF_SUPERVISOR, LARGEST_INTEGER, MAX_JOBS, MAX_NAME, Tails, Usage

MAX_NAMES = 1000
#: Characters of the last lines of a stream, four times what our agent sends; they are stored for each attempt of a job.
MAX_TAIL = 16 * 1024
#: Maximum of seconds and megabytes of one payload; more is an error of units.
LARGEST = 10**12


def names(help_text: str) -> serializers.ListField:
    """Return an optional field for a list of names."""
    return serializers.ListField(
        child=Name(max_length=MAX_NAME), max_length=MAX_NAMES, required=False, help_text=help_text
    )


def _offered(amount: Amount) -> WholeNumber:
    return WholeNumber(
        min_value=amount.least,
        max_value=LARGEST_INTEGER,
        required=False,
        default=amount.least if amount.is_divided else empty,
        help_text=amount.help_of_slot,
    )


class OfferIn(FastSerializer):
    """The offer of a slot; the fields define the meaning of leaving one out."""

    vo = Name(max_length=MAX_NAME, required=False, help_text="VO of the pilot.")
    setup = Name(max_length=MAX_NAME, required=False, help_text="Setup of the pilot; default: its own.")
    site = Name(
        max_length=MAX_NAME,
        required=False,
        help_text="Site of the pilot; default: its registered site, another one is refused. In a preview, left "
        "out or ANY: not compared. A pilot made by hand that leaves it out may be at any site of its "
        "VO; the offer is then narrowed: a requirement, ban or platform counts as met only if every "
        "queue where the pilot may be meets it, a ban or closed throttle of one possible place "
        "closes the offer, and jobs within a limit of such a place are not leased.",
    )
    ce = Name(max_length=MAX_NAME, required=False, help_text="Computing element; same rules as site.")
    queue = Name(max_length=MAX_NAME, required=False, help_text="Batch queue; same rules as site.")
    platforms = names(
        "Platforms of the node. A job fits if it runs on a platform configured for the queue and on "
        "one of the node (the configuration of a site may drop the latter for containers); without "
        "platforms of the queue, on one of the node. Default: the platform in the report of the "
        "node, else those of the queue. In a preview, left out: not compared."
    )
    cpu_time_s = WholeNumber(
        min_value=0, max_value=LARGEST_INTEGER, help_text="CPU time left, in reference-core seconds per core."
    )
    tags = names("Tags that jobs may require.")
    required_tags = names(
        "Tags that a job must require to be leased; each must be among the tags. Those of the queue apply too."
    )
    container = Flag(default=False, help_text="Whether the slot can run containers.")
    job_types = names(
        "Accepted job types; default: those of the queue, or of all queues where the pilot may be, else all."
    )
    submit_pools = names(
        "Submit pools of the offer; they only narrow those of the queue, which are the default (of "
        "all queues where the pilot may be)."
    )
    grid_middleware = Name(
        max_length=MAX_NAME,
        required=False,
        help_text="Grid middleware of the computing element; recorded, not compared.",
    )
    request_id = serializers.UUIDField(
        help_text="Id of the request; a repeated request with the same id returns the same leases."
    )
    max_jobs = WholeNumber(
        min_value=1,
        max_value=MAX_JOBS,
        required=False,
        help_text="Maximum number of leases; each reduces the processors, memory, GPUs and disk of the offer. "
        "The response is then a list.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields with the amounts; a wall-clock time that is left out is that of the queue."""
        amounts = {amount.name: _offered(amount) for amount in AMOUNTS}
        return {**super().get_fields(), **amounts}

    @classmethod
    def offer_of(cls, values: Mapping[str, object]) -> OfferRequest:
        """Return the offer in the checked values of a body."""
        return msgspec.convert(values, OfferRequest)


class PreviewIn(OfferIn):
    """An offer for a preview; nothing is claimed."""

    request_id = serializers.UUIDField(required=False, help_text="Ignored.")
    owner = Name(
        max_length=MAX_NAME, required=False, help_text="Owner of a private pilot whose group does not share jobs."
    )
    group = Name(max_length=MAX_NAME, required=False, help_text="Group of a private pilot; left out: a generic pilot.")


class LeaseOut(serializers.Serializer[object]):
    """A lease on one job."""

    match_id = serializers.UUIDField()
    expires_at = serializers.DateTimeField(help_text="End of the lease; reports renew it.")
    token = serializers.CharField(help_text="Token for this lease only.")
    job = serializers.DictField(help_text="Job with id, owner, group, input_sandboxes and its complete description.")
    job_data = LeaseDataOut(
        required=False, help_text="Storage of input and output data; only for a job that has such data."
    )


class LeasesOut(serializers.Serializer[object]):
    """The answer to an offer with max_jobs."""

    leases = LeaseOut(many=True)


class StatusIn(FastSerializer):
    """A status report of a job."""

    status = serializers.ChoiceField(choices=[JobStatus.RUNNING.value, JobStatus.COMPLETING.value])
    minor_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)
    application_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)


def _measure(help_text: str) -> Number:
    return Number(min_value=0, max_value=LARGEST, required=False, allow_null=True, help_text=help_text)


class UsageIn(FastSerializer):
    """Resources used by the payload; left out: not measured."""

    cpu_s = _measure("CPU time of all processes of the payload, in seconds.")
    wall_s = _measure("Wall-clock time since the start of the payload, in seconds.")
    memory_mb = _measure("Resident memory of all processes of the payload, in MB.")
    disk_mb = _measure("Size of the payload's directory, in MB.")

    @classmethod
    def usage_of(cls, values: Mapping[str, float | None]) -> Usage:
        """Return the usage in the checked values of a body."""
        return Usage(*map(values.get, Usage._fields))


def _tail(stream: str) -> Text:
    return Text(
        max_length=MAX_TAIL,
        required=False,
        allow_blank=True,
        help_text=f"Last lines of standard {stream}; left out: unchanged.",
    )


def tails_of(values: Mapping[str, str | None]) -> Tails:
    """Return the last lines in the checked values of a body."""
    return Tails(*map(values.get, Tails._fields))


class HeartbeatIn(UsageIn):
    """A heartbeat."""

    std_output = _tail("output")
    std_error = _tail("error")
    acknowledged = serializers.ListField(
        child=WholeNumber(), max_length=1000, required=False, help_text="Ids of executed commands."
    )


class FinishIn(FastSerializer):
    """The end of a payload."""

    exit_code = WholeNumber(
        min_value=-LARGEST_INTEGER,
        max_value=LARGEST_INTEGER,
        allow_null=True,
        help_text="Exit code of the payload. 0: Done. 222: back to its task queue. Any other, or null (no exit "
        "code): Failed.",
    )
    minor_status = Text(max_length=MAX_NAME, required=False, allow_blank=True)
    usage = UsageIn()
    output_sandbox = Text(
        max_length=MAX_NAME,
        required=False,
        allow_null=True,
        help_text="Name of the output sandbox that was uploaded on this lease.",
    )
    output_lost = Flag(
        required=False,
        help_text="Whether a part of the output is stored nowhere; minor_status says why.",
    )
    std_output = _tail("output")
    std_error = _tail("error")
    fault = serializers.ChoiceField(
        choices=[FAULT_OF_JOB, FAULT_OF_SUPERVISOR],
        required=False,
        allow_null=True,
        help_text=(
            "Cause of a failure outside the payload. job: the node lacks something that the job itself "
            "requires (software, input data, image, executable); this does not count against the node. "
            "Only with exit code null, 126, 127 or 222; ignored with others, because the payload has "
            "run. supervisor: the pilot's process for the job died; with exit code 222; a job fails if "
            "this happens too often. Left out or null: neither."
        ),
    )


class CommandOut(serializers.Serializer[object]):
    """A command for the pilot, repeated until acknowledged."""

    id = serializers.IntegerField()
    name = serializers.CharField(
        help_text="kill: stop the payload; drain: request no more jobs. Both must be acknowledged."
    )
    arguments = serializers.DictField()


class AnswerOut(serializers.Serializer[object]):
    """The answer to a report."""

    commands = CommandOut(many=True)
    expires_at = serializers.DateTimeField(help_text="End of the lease; reports renew it.")
    token = serializers.CharField(required=False, help_text="New token of the lease; replaces the previous one.")


class FinishedOut(serializers.Serializer[object]):
    """The answer to the end of a payload."""

    status = serializers.CharField(help_text="Status of the job.")


class PreviewQueueOut(serializers.Serializer[object]):
    """One task queue that fits."""

    id = serializers.IntegerField()
    owner = serializers.CharField()
    group = serializers.CharField()
    cpu_time_s = serializers.IntegerField(help_text="CPU segment, in reference-core seconds per core.")
    priority = serializers.FloatField()
    jobs = serializers.IntegerField()
    chance = serializers.FloatField(
        help_text="Probability that this offer gets a job of this task queue, if no other offer is made."
    )


class ConditionOut(serializers.Serializer[object]):
    """One condition of the match."""

    name = serializers.CharField()
    left = serializers.IntegerField(help_text="Task queues left after this condition and all before it.")


class PreviewOut(serializers.Serializer[object]):
    """The task queues that an offer would be drawn from."""

    task_queues = PreviewQueueOut(many=True)
    conditions = ConditionOut(many=True)


def answer_out(answer: LeaseRenewal, *, token: str | None) -> dict[str, object]:
    """Return the answer to a report; with a new token if the one used ends soon."""
    commands = [{"id": c.pk, "name": c.name, "arguments": c.arguments} for c in answer.commands]
    out = {"commands": commands, "expires_at": answer.expires_at}
    return out if token is None else {**out, "token": token}


def lease_out(lease: Claimed, *, data: LeaseData | None, now: datetime) -> dict[str, object]:
    """Return a lease, its token and the job, with its data if it has any."""
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


def preview_out(seen: Preview) -> dict[str, object]:
    """Return a preview in the form of the answer."""
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
