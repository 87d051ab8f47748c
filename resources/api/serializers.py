"""What the endpoints of the resources take and answer."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from resources.domain.parameters import LevelParameters, Parameters, inherit
from resources.domain.words import Identity, PilotType, ResourceState
from resources.models import ComputingElement, Level, Queue, Site
from wms.kernel.rest import PageQuery


class SiteQuery(PageQuery):
    """Query string of GET /api/sites/."""

    vo = serializers.CharField(
        required=False, max_length=64, help_text="Only the sites that serve this VO, with its parameters."
    )


class LevelOut(serializers.Serializer[Any]):
    """What site, computing element and queue have in common."""

    name = serializers.CharField(help_text="Unique within the level above.")
    state = serializers.SerializerMethodField(help_text="In force now, whatever the levels above say.")
    state_reason = serializers.SerializerMethodField(help_text="Why it is not active.")
    state_until = serializers.SerializerMethodField(help_text="From then on it is active again; null: no end is set.")
    parameters = serializers.SerializerMethodField(
        help_text="In force here, inherited ones included; names in lower case. With `?vo=` those of that VO."
    )

    @extend_schema_field(serializers.ChoiceField(choices=[str(state) for state in ResourceState]))
    def get_state(self, level: Level) -> str:
        """Return the state in force."""
        return level.state_at(timezone.now())

    def get_state_reason(self, level: Level) -> str:
        """Return the reason of a state that is in force."""
        return "" if self._is_active(level) else level.state_reason

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_state_until(self, level: Level) -> str | None:
        """Return the end of a state that is in force."""
        ends = level.state_until
        return None if ends is None or self._is_active(level) else ends.isoformat()

    @extend_schema_field(serializers.DictField())
    def get_parameters(self, level: Level) -> Mapping[str, object]:
        """Return the parameters in force."""
        return parameters_of(level, vo=self.context.get("vo"))

    @staticmethod
    def _is_active(level: Level) -> bool:
        return level.state_at(timezone.now()) is ResourceState.ACTIVE


def parameters_of(level: Level, *, vo: str | None) -> Parameters:
    """Return what is in force at *level*, of which the levels above are at hand."""
    above: Level | None = None
    if isinstance(level, ComputingElement):
        above = level.site
    elif isinstance(level, Queue):
        above = level.ce
    inherited: Parameters = {} if above is None else parameters_of(above, vo=vo)
    return inherit(inherited, LevelParameters.read(level.parameters, level.vo_parameters, vo=vo))


class QueueOut(LevelOut):
    """One queue, with what a slot of it offers."""

    cpu_time_s = serializers.IntegerField(help_text="Reference-core CPU seconds of a slot, per core.")
    platforms = serializers.ListField(child=serializers.CharField(), help_text="Of its nodes; empty: as detected.")
    processors = serializers.IntegerField(help_text="Of a slot.")
    memory_mb = serializers.IntegerField(help_text="Of a slot, in MB; 0: only jobs that ask no memory.")
    wall_time_s = serializers.IntegerField(allow_null=True, help_text="Seconds that a slot lasts; null: not limited.")
    gpus = serializers.IntegerField(help_text="Of a slot.")
    disk_mb = serializers.IntegerField(help_text="Of a slot, in MB; 0: only jobs that ask no disk.")
    container = serializers.BooleanField(help_text="Whether its nodes can run containers.")
    job_types = serializers.ListField(child=serializers.CharField(), help_text="Taken; empty: all.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Offered to jobs that ask for them.")
    required_tags = serializers.ListField(
        child=serializers.CharField(), help_text="Only jobs that ask for all of them."
    )
    max_waiting_pilots = serializers.IntegerField(help_text="Pilots that directors keep waiting here at most.")
    max_pilots = serializers.IntegerField(help_text="Pilots that directors keep here at most.")


class CEOut(LevelOut):
    """One computing element."""

    type = serializers.ChoiceField(choices=list(settings.WMS_BACKENDS), help_text="Its backend.")
    pilot_types = serializers.ListField(
        child=serializers.ChoiceField(choices=[str(kind) for kind in PilotType]), help_text="Accepted; empty: both."
    )
    identity = serializers.ChoiceField(
        choices=[str(kind) for kind in Identity], help_text="How payloads are kept apart from the pilot."
    )
    queues = QueueOut(many=True, help_text="By name.")


class SiteOut(LevelOut):
    """One site with everything below it."""

    vos = serializers.SerializerMethodField(help_text="Served, as far as the caller may see them; empty: all.")
    ces = CEOut(many=True, help_text="By name.")

    def get_vos(self, site: Site) -> list[str]:
        """Return the names of the VOs that are named."""
        return [vo.name for vo in site.vos.all()]
