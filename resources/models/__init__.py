"""Models of resources: site > computing element > queue, with offers and states, and storage elements (RFC7)."""

from resources.models.downtimes import Downtime
from resources.models.places import (
    ComputingElement,
    Platform,
    Queue,
    ReportedPlatform,
    RequirementDefinition,
    ResourceLevel,
    Site,
    SiteAdministrator,
    SiteQuerySet,
    SiteThrottle,
    SiteToken,
    ThrottleState,
    ce_types,
    chosen_setup,
)
from resources.models.storage import (
    OutputName,
    Replica,
    ReplicaChange,
    ReplicaQuerySet,
    StorageElement,
    StorageElementQuerySet,
)

__all__ = [
    "ComputingElement",
    "Downtime",
    "OutputName",
    "Platform",
    "Queue",
    "Replica",
    "ReplicaChange",
    "ReplicaQuerySet",
    "ReportedPlatform",
    "RequirementDefinition",
    "ResourceLevel",
    "Site",
    "SiteAdministrator",
    "SiteQuerySet",
    "SiteThrottle",
    "SiteToken",
    "StorageElement",
    "StorageElementQuerySet",
    "ThrottleState",
    "ce_types",
    "chosen_setup",
]
