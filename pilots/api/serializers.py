"""Bodies and responses of the endpoints for pilots."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from pilots.agent_package import agent_package
from pilots.models import Pilot
from pilots.queries import PilotConfiguration
from pilots.services.registration import RegisteredPilot, Registration
from pilots.services.reports import NodeCheck, NodeCheckItem, NodeFlaw
from resources.api.serializers import SlotOut
from resources.domain.ce_options import payload_users
from resources.models import Queue
from wms.kernel.rest import Flag, StrictSerializer, Text
from wms.wire.protocol import MAX_DETAIL, MAX_NAME

#: Size of a node report as JSON; it is stored as received.
MAX_NODE_BYTES = 16 * 1024
MAX_CHECKS = 100
#: Keys of the stored node report that other fields of the report fill.
NODE_WORDS = frozenset({"ok", "batch_id", "checks", "flaws"})


class RegistrationIn(StrictSerializer):
    """Body of POST /api/v1/pilots/register/."""

    vo = Text(max_length=64, help_text="VO whose jobs the pilot runs.")
    site = Text(max_length=128, help_text="Site of the pilot; must be that of the token.")
    ce = Text(max_length=128, help_text="Name of the computing element at the site.")
    queue = Text(max_length=128, help_text="Name of the queue of the computing element.")
    stamp = Text(
        max_length=128, required=False, allow_blank=True, help_text="Stamp of the pilot: its name in the batch system."
    )
    host_name = Text(max_length=MAX_NAME, required=False, allow_blank=True, help_text="Host name of the node.")
    setup = Text(
        max_length=MAX_NAME,
        required=False,
        help_text="Setup of the pilot, one of the VO's; default: that of the token, else of queue, CE or VO.",
    )

    @classmethod
    def parse(cls, data: object) -> Registration:
        """Return the registration request."""
        return Registration(**cls.checked(data))


class RegisteredPilotOut(serializers.Serializer[RegisteredPilot]):
    """A new pilot with its first token."""

    pilot = serializers.IntegerField(source="pilot.pk", help_text="Id of the pilot.")
    token = serializers.CharField(help_text="Token of the pilot, shown only once; reports renew it.")
    expires_at = serializers.DateTimeField(help_text="End of the token's validity.")


class LastWords(NamedTuple):
    """The last report of a pilot: why it ends, and whether that is a failure."""

    reason: str
    failed: bool


class CheckIn(StrictSerializer):
    """One check of the node."""

    name = Text(max_length=64, help_text="Name of the check, such as disk.")
    ok = Flag(help_text="Whether the node passed the check.")
    detail = Text(max_length=MAX_DETAIL, required=False, allow_blank=True, help_text="Result in words.")


class FlawIn(StrictSerializer):
    """Something that a job did not find on the node."""

    name = Text(max_length=64, help_text="Subject: software, container or identity.")
    detail = Text(max_length=MAX_DETAIL, required=False, allow_blank=True, help_text="Description in words.")


class ReportIn(StrictSerializer):
    """Body of POST /api/v1/pilots/report/: the result of the node check, a flaw found by a job, or the last report."""

    host_name = Text(max_length=MAX_NAME, required=False, help_text="Host name of the node; required with ok.")
    batch_id = Text(
        max_length=MAX_NAME,
        required=False,
        allow_blank=True,
        help_text="Pilot reference: id of the pilot in its batch system.",
    )
    ok = Flag(required=False, help_text="Whether the node can run jobs; false ends the pilot.")
    checks = serializers.ListField(
        child=CheckIn(), max_length=MAX_CHECKS, required=False, help_text="Checks of the node, in order."
    )
    node = serializers.DictField(
        child=serializers.JSONField(allow_null=True),
        required=False,
        help_text=f"Properties of the node; at most {MAX_NODE_BYTES} bytes of JSON.",
    )
    flaw = FlawIn(
        required=False, help_text="Without other fields: something that the node lacked for a job; the pilot goes on."
    )
    leaving = Text(
        max_length=MAX_NAME,
        required=False,
        help_text="Without other fields but failed: the reason why the pilot ends; it has then ended.",
    )
    failed = Flag(
        required=False,
        help_text="With leaving: true if the pilot could not work; its status becomes Failed, else Done.",
    )

    def validate_node(self, node: Mapping[str, object]) -> Mapping[str, object]:
        """Refuse a report that is too large, or that uses reserved keys."""
        if reserved := sorted(NODE_WORDS & node.keys()):
            raise serializers.ValidationError(f"Leave out {', '.join(reserved)}: they have fields of their own.")
        if len(json.dumps(node)) > MAX_NODE_BYTES:
            raise serializers.ValidationError(f"This may have at most {MAX_NODE_BYTES} bytes of JSON; shorten it.")
        return node

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        """Refuse a report that mixes kinds, or has none."""
        if "flaw" in attrs:
            if len(attrs) > 1:
                raise serializers.ValidationError({"flaw": ["Send it alone."]})
            return attrs
        if "leaving" in attrs:
            if attrs.keys() - {"leaving", "failed"}:
                raise serializers.ValidationError({"leaving": ["Send it alone."]})
            return attrs
        if "failed" in attrs:
            raise serializers.ValidationError({"failed": ["Send it only with leaving; otherwise send ok."]})
        missing = [name for name in ("ok", "host_name") if name not in attrs]
        if missing:
            sentence = 'Required, unless the report is {"leaving": "why"}.'
            raise serializers.ValidationError({name: [sentence] for name in missing})
        return attrs

    @classmethod
    def parse(cls, data: object) -> NodeCheck | NodeFlaw | LastWords:
        """Return the node check, the flaw, or the last report of a pilot that ends."""
        fields = cls.checked(data)
        if "flaw" in fields:
            return NodeFlaw(**fields["flaw"])
        if "leaving" in fields:
            return LastWords(reason=fields["leaving"], failed=fields.get("failed", False))
        return NodeCheck(
            host_name=fields["host_name"],
            batch_id=fields.get("batch_id", ""),
            ok=fields["ok"],
            checks=[NodeCheckItem(**check) for check in fields.get("checks", [])],
            node=fields.get("node", {}),
        )


class ReportOut(serializers.Serializer[Pilot]):
    """The status of the pilot after its report."""

    pilot = serializers.IntegerField(source="pk", help_text="Id of the pilot.")
    status = serializers.CharField(help_text="Status of the pilot: Running, or how it ended.")
    token = serializers.SerializerMethodField(help_text="New token if the current one expires soon; else null.")

    def get_token(self, _: Pilot) -> str | None:
        """Return the renewed token, if the view made one."""
        token: str | None = self.context["token"]
        return token


class PlaceOut(SlotOut):
    """The queue where the pilot runs, and what its slots offer."""

    site = serializers.CharField(source="ce.site.name")
    ce = serializers.CharField(source="ce.name")
    queue = serializers.CharField(source="name")
    identity = serializers.CharField(source="ce.identity", help_text="Identity of payloads: none, environment or sudo.")
    payload_users = serializers.SerializerMethodField(help_text="Unix accounts of the node, for identity sudo.")

    def get_payload_users(self, queue: Queue) -> list[str]:
        """Return the accounts in the options of the CE."""
        return list(payload_users(queue.ce.options))


class WatchdogOut(serializers.Serializer[object]):
    """Limits beyond which the pilot ends a payload."""

    period_s = serializers.IntegerField(help_text="Seconds between two checks of the payload.")
    cpu_factor = serializers.FloatField(help_text="Limit of CPU time, as a multiple of the job's requirement.")
    memory_factor = serializers.FloatField(help_text="Limit of memory, as a multiple of the job's requirement.")
    min_free_disk_mb = serializers.IntegerField(help_text="Free disk space, in MB, below which the payload is ended.")
    stalled_s = serializers.IntegerField(
        help_text="Seconds with hardly any CPU time after which the payload is stalled, and ended."
    )
    stalled_cpu_fraction = serializers.FloatField(
        help_text="CPU time per wall-clock time, as a part of one core, that counts as hardly any."
    )
    max_stalled_s = serializers.IntegerField(help_text="Longest stalled_s that a job may require; 0: any, also none.")
    stalled_warning_fraction = serializers.FloatField(
        help_text="Fraction of stalled_s after which the job's owner is warned."
    )
    warning_fraction = serializers.FloatField(help_text="Fraction of a limit above which the job's owner is warned.")
    stream_max_mb = serializers.IntegerField(
        help_text="Limit of standard output and of standard error, in MB; 0: no limit."
    )
    unasked_disk_mb = serializers.IntegerField(
        help_text="Limit of what a job without a disk requirement writes, beside its input, in MB; 0: no limit."
    )
    processes_per_core = serializers.IntegerField(
        help_text="Limit of the processes of a payload, for each processor that the job requires; 0: no limit."
    )


class AgentOut(serializers.Serializer[object]):
    """Address and digest of the agent."""

    sha256 = serializers.CharField(help_text="SHA-256 of the program, in hexadecimal.")
    url = serializers.CharField(help_text="Path of the program below the address of the server.")


class ConfigurationOut(serializers.Serializer[PilotConfiguration]):
    """The configuration of a pilot."""

    protocol = serializers.IntegerField(
        help_text="Version of the protocol; an agent that does not support it must end."
    )
    server_time = serializers.DateTimeField(help_text="Time of the server, with which leases are measured.")
    pilot = serializers.IntegerField(source="pilot.pk", help_text="Id of the pilot.")
    type = serializers.CharField(source="pilot.pilot_type", help_text="Type of the pilot: generic or private.")
    vo = serializers.CharField(source="pilot.vo.name")
    setup = serializers.CharField(
        help_text="Setup of the pilot: its own, else that of its queue or CE if known, else that of the VO."
    )
    setups = serializers.ListField(
        source="pilot.vo.setups", child=serializers.CharField(), help_text="All setups of the VO."
    )
    group = serializers.CharField(
        source="pilot.group.name", default=None, allow_null=True, help_text="Group of a private pilot; null: generic."
    )
    owner = serializers.CharField(source="pilot.owner.username", default=None, allow_null=True)
    place = PlaceOut(
        source="queue", allow_null=True, help_text="Queue of the pilot; null: made by hand, and not for one queue."
    )
    heartbeat_s = serializers.IntegerField(help_text="Seconds between two heartbeats.")
    match_retry_after_s = serializers.IntegerField(help_text="Seconds to wait after an empty match.")
    lease_first_s = serializers.IntegerField(help_text="Seconds of a lease until its first report.")
    lease_s = serializers.IntegerField(help_text="Seconds of a lease after each report.")
    lease_grace_s = serializers.IntegerField(
        help_text="Seconds before the end of a lease by which its payload must have stopped."
    )
    sandbox_max_bytes = serializers.IntegerField(help_text="Limit of an output sandbox, in bytes.")
    sandbox_max_unpacked_bytes = serializers.IntegerField(help_text="Limit of an unpacked archive, in bytes.")
    watchdog = WatchdogOut()
    agent = serializers.SerializerMethodField(help_text="Program of the server's version.")

    @extend_schema_field(AgentOut)
    def get_agent(self, configuration: PilotConfiguration) -> dict[str, str]:
        """Return the agent's address and SHA-256."""
        return {"sha256": agent_package().sha256, "url": reverse("pilot-agent")}
