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
from resources.api.serializers import SlotAmountsOut
from resources.domain.ce_options import payload_users
from resources.models import Queue
from wms.kernel.protocol import MAX_DETAIL, MAX_NAME
from wms.kernel.rest import Flag, StrictSerializer, Text

#: Size of a node report as JSON; it is stored as received.
MAX_NODE_BYTES = 16 * 1024
MAX_CHECKS = 100
#: Keys of the stored node report that other fields of the report fill.
NODE_WORDS = frozenset({"ok", "batch_id", "checks", "flaws"})


class RegistrationIn(StrictSerializer):
    """Body of POST /api/v1/pilots/register/."""

    vo = Text(max_length=64, help_text="For whose jobs the pilot is.")
    site = Text(max_length=128, help_text="Where it runs; the site of the token.")
    ce = Text(max_length=128, help_text="Name of the computing element at the site.")
    queue = Text(max_length=128, help_text="Name of the queue of the computing element.")
    stamp = Text(max_length=128, required=False, allow_blank=True, help_text="Name in the batch system.")
    host_name = Text(max_length=MAX_NAME, required=False, allow_blank=True, help_text="Of the node.")

    @classmethod
    def parse(cls, data: object) -> Registration:
        """Return the registration request."""
        return Registration(**cls.checked(data))


class RegisteredPilotOut(serializers.Serializer[RegisteredPilot]):
    """A new pilot with its first token."""

    pilot = serializers.IntegerField(source="pilot.pk", help_text="Id of the pilot.")
    token = serializers.CharField(help_text="Shown this once; reports renew it.")
    expires_at = serializers.DateTimeField(help_text="End of the token.")


class LastWords(NamedTuple):
    """The last report of a pilot: why it ends, and whether that is a failure."""

    reason: str
    failed: bool


class CheckIn(StrictSerializer):
    """One check of the node."""

    name = Text(max_length=64, help_text="What was looked at, such as disk.")
    ok = Flag(help_text="Whether jobs can run for all that.")
    detail = Text(max_length=MAX_DETAIL, required=False, allow_blank=True, help_text="For people.")


class FlawIn(StrictSerializer):
    """Something that a job did not find on the node."""

    name = Text(max_length=64, help_text="What it is about: software, container, identity.")
    detail = Text(max_length=MAX_DETAIL, required=False, allow_blank=True, help_text="For people.")


class ReportIn(StrictSerializer):
    """Body of POST /api/v1/pilots/report/: the result of the node check, a flaw found by a job, or the last report."""

    host_name = Text(max_length=MAX_NAME, required=False, help_text="Of the node; required with ok.")
    batch_id = Text(
        max_length=MAX_NAME, required=False, allow_blank=True, help_text="Of the pilot in its batch system."
    )
    ok = Flag(required=False, help_text="Whether the node is fit for jobs; false ends the pilot.")
    checks = serializers.ListField(
        child=CheckIn(), max_length=MAX_CHECKS, required=False, help_text="What was looked at, in order."
    )
    node = serializers.DictField(
        child=serializers.JSONField(allow_null=True),
        required=False,
        help_text=f"What the node has and is; at most {MAX_NODE_BYTES} bytes of JSON.",
    )
    flaw = FlawIn(required=False, help_text="Alone: something that a job did not find on the node; the pilot goes on.")
    leaving = Text(max_length=MAX_NAME, required=False, help_text="Alone: why the pilot leaves; it has then ended.")
    failed = Flag(required=False, help_text="With leaving: the pilot could not work; it is then Failed, else Done.")

    def validate_node(self, node: Mapping[str, object]) -> Mapping[str, object]:
        """Refuse a report that is too large, or that uses reserved keys."""
        if reserved := sorted(NODE_WORDS & node.keys()):
            raise serializers.ValidationError(f"Leave out {', '.join(reserved)}: they have fields of their own.")
        if len(json.dumps(node)) > MAX_NODE_BYTES:
            raise serializers.ValidationError(f"At most {MAX_NODE_BYTES} bytes of JSON are kept; leave something out.")
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
            raise serializers.ValidationError({"failed": ["Send it with leaving only; else say ok."]})
        missing = [name for name in ("ok", "host_name") if name not in attrs]
        if missing:
            sentence = 'Required, unless the report is {"leaving": "why"}.'
            raise serializers.ValidationError({name: [sentence] for name in missing})
        return attrs

    @classmethod
    def parse(cls, data: object) -> NodeCheck | NodeFlaw | LastWords:
        """Return the node check, the flaw, or the last report of a pilot that ends."""
        given = cls.checked(data)
        if "flaw" in given:
            return NodeFlaw(**given["flaw"])
        if "leaving" in given:
            return LastWords(reason=given["leaving"], failed=given.get("failed", False))
        return NodeCheck(
            host_name=given["host_name"],
            batch_id=given.get("batch_id", ""),
            ok=given["ok"],
            checks=[NodeCheckItem(**check) for check in given.get("checks", [])],
            node=given.get("node", {}),
        )


class ReportOut(serializers.Serializer[Pilot]):
    """The status of the pilot after its report."""

    pilot = serializers.IntegerField(source="pk", help_text="Id of the pilot.")
    status = serializers.CharField(help_text="Running, or how the pilot ended.")
    token = serializers.SerializerMethodField(help_text="In place of the one sent, which is near its end; else null.")

    def get_token(self, _: Pilot) -> str | None:
        """Return the renewed token, if the view made one."""
        token: str | None = self.context["token"]
        return token


class PlaceOut(SlotAmountsOut):
    """The queue where the pilot runs, and what its slots offer."""

    site = serializers.CharField(source="ce.site.name")
    ce = serializers.CharField(source="ce.name")
    queue = serializers.CharField(source="name")
    identity = serializers.CharField(source="ce.identity", help_text="Of payloads: none, environment, sudo.")
    payload_users = serializers.SerializerMethodField(help_text="Unix accounts of the node for identity sudo.")
    cpu_time_s = serializers.IntegerField(help_text="Reference-core CPU seconds that a slot gives, per core.")
    platforms = serializers.ListField(
        child=serializers.CharField(), help_text="Of its nodes, as configured; empty: any."
    )
    container = serializers.BooleanField(help_text="Whether jobs in containers may come, if the node can run them.")
    job_types = serializers.ListField(child=serializers.CharField(), help_text="Taken; empty: all.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Offered.")
    required_tags = serializers.ListField(child=serializers.CharField(), help_text="That jobs must ask for.")

    def get_payload_users(self, queue: Queue) -> list[str]:
        """Return the accounts in the options of the CE."""
        return list(payload_users(queue.ce.options))


class WatchdogOut(serializers.Serializer[object]):
    """Limits beyond which the pilot ends a payload."""

    period_s = serializers.IntegerField(help_text="Between two looks at the payload.")
    cpu_factor = serializers.FloatField(help_text="Times the CPU time that the job asked for.")
    memory_factor = serializers.FloatField(help_text="Times the memory that the job asked for.")
    min_free_disk_mb = serializers.IntegerField(help_text="Below it the payload is ended.")
    stalled_s = serializers.IntegerField(help_text="So long with hardly any CPU: stalled.")
    stalled_cpu_fraction = serializers.FloatField(help_text="CPU per wall-clock time that is hardly any.")
    max_stalled_s = serializers.IntegerField(
        help_text="Longest window of the stall rule that a job may ask for; 0: any, also none."
    )
    stalled_warning_fraction = serializers.FloatField(help_text="Of that window; beyond it the job's owner is warned.")
    warning_fraction = serializers.FloatField(help_text="Of a limit; beyond it the job's owner is warned.")
    stream_max_mb = serializers.IntegerField(help_text="Of standard output and of standard error; 0: no limit.")
    unasked_disk_mb = serializers.IntegerField(
        help_text="Of what a job writes that asked for no disk, beside its input; 0: no limit."
    )


class AgentOut(serializers.Serializer[object]):
    """Address and digest of the agent."""

    sha256 = serializers.CharField(help_text="Of the file, in hexadecimal.")
    url = serializers.CharField(help_text="Path below the server's address.")


class ConfigurationOut(serializers.Serializer[PilotConfiguration]):
    """The configuration of a pilot."""

    protocol = serializers.IntegerField(help_text="Version; an agent that knows only others must leave.")
    server_time = serializers.DateTimeField(help_text="Of the clock that leases are measured by.")
    pilot = serializers.IntegerField(source="pilot.pk", help_text="Id of the pilot.")
    type = serializers.CharField(source="pilot.pilot_type", help_text="generic or private.")
    vo = serializers.CharField(source="pilot.vo.name")
    setup = serializers.CharField(source="pilot.vo.setup", help_text="The VO's default.")
    setups = serializers.ListField(source="pilot.vo.setups", child=serializers.CharField(), help_text="All of the VO.")
    group = serializers.CharField(source="pilot.group.name", default=None, allow_null=True, help_text="Private: whose.")
    owner = serializers.CharField(source="pilot.owner.username", default=None, allow_null=True)
    place = PlaceOut(source="queue", allow_null=True, help_text="null: made by hand, and not for one queue.")
    heartbeat_s = serializers.IntegerField(help_text="Between two heartbeats.")
    match_retry_after_s = serializers.IntegerField(help_text="To wait after no job was given.")
    lease_first_s = serializers.IntegerField(help_text="Length of a lease until the first report …")
    lease_s = serializers.IntegerField(help_text="… and after each.")
    lease_grace_s = serializers.IntegerField(help_text="So long before a lease's end its payload must have stopped.")
    sandbox_max_bytes = serializers.IntegerField(help_text="Of an output sandbox.")
    sandbox_max_unpacked_bytes = serializers.IntegerField(help_text="Of what an archive unpacks to.")
    watchdog = WatchdogOut()
    agent = serializers.SerializerMethodField(help_text="The program of this server's version.")

    @extend_schema_field(AgentOut)
    def get_agent(self, configuration: PilotConfiguration) -> dict[str, str]:  # noqa: ARG002 - one program for all pilots
        """Return the agent's address and SHA-256."""
        return {"sha256": agent_package().sha256, "url": reverse("pilot-agent")}
