"""Responses of the endpoints for resources."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from resources.domain.enums import PayloadIdentity, PilotType, ResourceState
from resources.domain.parameters import InForce, LevelParameters, Parameters, in_force, inherit
from resources.models import ComputingElement, Queue, ResourceLevel, Site
from resources.queries.places import site_of
from wms.kernel.clock import current_time
from wms.wire.amounts import AMOUNTS

LevelT = TypeVar("LevelT", bound=ResourceLevel)


class LevelOut(serializers.Serializer[LevelT]):
    """Common fields of site, computing element and queue."""

    name = serializers.CharField(help_text="Name, unique within the level above.")
    state = serializers.SerializerMethodField(help_text="State now, of this level by itself.")
    state_reason = serializers.SerializerMethodField(help_text="Reason why it is not active.")
    state_until = serializers.SerializerMethodField(help_text="Time at which it is active again; null: no end is set.")
    parameters = serializers.SerializerMethodField(
        help_text="Parameters in force for each of the caller's VOs that the site serves, or for the VO of "
        "`?vo=`, inherited ones included; names in lower case."
    )
    vo_parameters = serializers.SerializerMethodField(
        help_text="{VO: parameters in force for this VO of the caller, but not for each of them}."
    )

    @extend_schema_field(serializers.ChoiceField(choices=[str(state) for state in ResourceState]))
    def get_state(self, level: ResourceLevel) -> str:
        """Return the state in force."""
        return level.state_at(current_time())

    def get_state_reason(self, level: ResourceLevel) -> str:
        """Return the reason of a state that is in force."""
        return "" if self._is_active(level) else level.state_reason

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_state_until(self, level: ResourceLevel) -> str | None:
        """Return the end of a state that is in force."""
        ends = level.state_until
        return None if ends is None or self._is_active(level) else ends.isoformat()

    @extend_schema_field(serializers.DictField())
    def get_parameters(self, level: ResourceLevel) -> Mapping[str, object]:
        """Return the parameters in force for each of the VOs."""
        return self._in_force(level).common

    @extend_schema_field(serializers.DictField(child=serializers.DictField()))
    def get_vo_parameters(self, level: ResourceLevel) -> Mapping[str, Parameters]:
        """Return the parameters in force for some of the VOs only."""
        return self._in_force(level).own

    def _in_force(self, level: ResourceLevel) -> InForce:
        """Return the parameters of the caller's VOs that the site serves; none of VOs that the caller may not see."""
        visible: Sequence[str] = self.context["vos"]
        site = site_of(level)
        # NB: only VOs that the caller may see are loaded; a visible site that names none of them serves all.
        named = [vo.name for vo in site.vos.all()]
        # Of a hundred VOs, few have parameters of their own.
        general = parameters_of(level, vo=None)
        special = vos_with_parameters(level)
        return in_force(
            {
                vo: parameters_of(level, vo=vo) if vo in special else general
                for vo in (named or visible)
                if vo in visible
            }
        )

    @staticmethod
    def _is_active(level: ResourceLevel) -> bool:
        return level.state_at(current_time()) is ResourceState.ACTIVE


def vos_with_parameters(level: ResourceLevel) -> frozenset[str]:
    """Return the VOs for which this level, or one above it, has parameters."""
    above: ResourceLevel | None = None
    if isinstance(level, ComputingElement):
        above = level.site
    elif isinstance(level, Queue):
        above = level.ce
    named = frozenset(level.vo_parameters) if isinstance(level.vo_parameters, Mapping) else frozenset()
    return named if above is None else named | vos_with_parameters(above)


def parameters_of(level: ResourceLevel, *, vo: str | None) -> Parameters:
    """Return the parameters in force at *level*, whose outer levels are loaded."""
    above: ResourceLevel | None = None
    if isinstance(level, ComputingElement):
        above = level.site
    elif isinstance(level, Queue):
        above = level.ce
    inherited: Parameters = {} if above is None else parameters_of(above, vo=vo)
    return inherit(inherited, LevelParameters.read(level.parameters, level.vo_parameters, vo=vo))


class SlotOut(serializers.Serializer[Queue]):
    """The offer of one slot of a queue."""

    cpu_time_s = serializers.IntegerField(help_text="CPU time of a slot, in reference-core seconds per core.")
    platforms = serializers.ListField(
        child=serializers.CharField(), help_text="Platforms of its nodes; empty: as detected."
    )
    container = serializers.BooleanField(help_text="Whether its nodes can run containers.")
    job_types = serializers.ListField(
        child=serializers.CharField(), help_text="Job types that the queue accepts; empty: all."
    )
    tags = serializers.ListField(child=serializers.CharField(), help_text="Tags that jobs may require.")
    required_tags = serializers.ListField(
        child=serializers.CharField(), help_text="Tags that a job must require to be accepted."
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields with the amounts; those that jobs do not divide may be null: not limited."""
        amounts = {
            amount.name: serializers.IntegerField(allow_null=not amount.is_divided, help_text=amount.help_of_slot)
            for amount in AMOUNTS
        }
        return {**super().get_fields(), **amounts}


class QueueOut(SlotOut, LevelOut[Queue]):
    """One queue, with the offer of a slot."""

    stalled_s = serializers.IntegerField(
        allow_null=True,
        help_text="Seconds with hardly any CPU time after which payloads are stopped; 0: never; null: that of the VO.",
    )
    stalled_cpu_fraction = serializers.FloatField(
        allow_null=True,
        help_text="CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: that "
        "of the VO.",
    )
    max_stalled_s = serializers.IntegerField(
        allow_null=True, help_text="Longest stalled_s that a job may require; 0: any, also none; null: that of the VO."
    )
    max_waiting_pilots = serializers.IntegerField(
        help_text="Maximum number of waiting pilots that directors keep here."
    )
    max_pilots = serializers.IntegerField(help_text="Maximum number of pilots that directors keep here.")


class CEOut(LevelOut[ComputingElement]):
    """One computing element."""

    type = serializers.ChoiceField(choices=list(settings.WMS_BACKENDS), help_text="Type of the computing element.")
    pilot_types = serializers.ListField(
        child=serializers.ChoiceField(choices=[str(kind) for kind in PilotType]),
        help_text="Accepted types of pilots; empty: both.",
    )
    identity = serializers.ChoiceField(
        choices=[str(kind) for kind in PayloadIdentity], help_text="Separation of payloads from the pilot."
    )
    queues = QueueOut(many=True, help_text="By name.")


class SiteOut(LevelOut[Site]):
    """One site with its computing elements and queues."""

    vos = serializers.SerializerMethodField(
        help_text="VOs that the site serves, among those that the caller may see; empty: all."
    )
    ces = CEOut(many=True, help_text="By name.")

    def get_vos(self, site: Site) -> list[str]:
        """Return the names of the VOs that the site names."""
        return [vo.name for vo in site.vos.all()]
