"""The words of the resources app: states, types and policies, spelt as in the configuration file."""

from enum import StrEnum


class ResourceState(StrEnum):
    """State of a site, a computing element or a queue."""

    #: Takes jobs and pilots.
    ACTIVE = "active"
    #: Takes no new job and no new pilot; what runs there ends in peace.
    DRAINING = "draining"
    #: As draining; besides, pilots that still wait there are removed and none may register.
    BANNED = "banned"


class PayloadIdentity(StrEnum):
    """How far a payload's Unix identity is kept apart from the pilot's (PIL §3.1)."""

    NONE = "none"
    ENVIRONMENT = "environment"
    SUDO = "sudo"


class PilotType(StrEnum):
    """Whose jobs a pilot may run (PIL §3.1)."""

    PRIVATE = "private"
    GENERIC = "generic"


class ThrottlePolicy(StrEnum):
    """SAM's policies that limit the flow of jobs to a site; '' is none."""

    NONE = ""
    MATCHES = "matches"
    LEVEL0 = "level0"
    LEVEL1 = "level1"
    LEVEL2 = "level2"
    CUSTOM = "custom"


class WhenExpired(StrEnum):
    """What a throttle does when the site no longer advertises."""

    COUNT = "count"
    CLOSED = "closed"


class RequirementKind(StrEnum):
    """How a requirement compares with a resource's parameter (RFC7)."""

    SET = "set"
    CAPACITY = "capacity"
    EXACT = "exact"


class SiteTokenPurpose(StrEnum):
    """What a site's token opens."""

    ADVERTISE = "advertise"
    REGISTER = "register"
