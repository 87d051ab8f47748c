"""Enumerations of resources: states, types and policies, spelled as in the configuration file."""

from enum import StrEnum

from wms.wire import protocol


class DowntimeSource(StrEnum):
    """The place where a downtime was announced."""

    HERE = ""
    GOCDB = "gocdb"


class ResourceState(StrEnum):
    """State of a site, a computing element or a queue."""

    #: Takes jobs and pilots.
    ACTIVE = "active"
    #: Takes no new job and no new pilot; what runs there ends normally.
    DRAINING = "draining"
    #: As draining; in addition, pilots that wait there are removed and none may register.
    BANNED = "banned"


class PayloadIdentity(StrEnum):
    """Separation of a payload's Unix identity from the pilot's (PIL §3.1)."""

    NONE = protocol.IDENTITY_NONE
    ENVIRONMENT = protocol.IDENTITY_ENVIRONMENT
    SUDO = protocol.IDENTITY_SUDO


class PilotType(StrEnum):
    """Type of a pilot, by whose jobs it may run (PIL §3.1)."""

    PRIVATE = "private"
    GENERIC = "generic"


class ThrottlePolicy(StrEnum):
    """SAM's policies that limit the flow of jobs to a site; '' is no policy."""

    NONE = ""
    MATCHES = "matches"
    LEVEL0 = "level0"
    LEVEL1 = "level1"
    LEVEL2 = "level2"
    CUSTOM = "custom"


class WhenExpired(StrEnum):
    """Behaviour of a throttle after the site's last advertisement has expired."""

    COUNT = "count"
    CLOSED = "closed"


class RequirementKind(StrEnum):
    """Kind of comparison between a requirement and a resource's parameter (RFC7)."""

    SET = "set"
    CAPACITY = "capacity"
    EXACT = "exact"


class SiteTokenPurpose(StrEnum):
    """Permitted use of a site's token."""

    ADVERTISE = "advertise"
    REGISTER = "register"
