"""Words of the accounts app."""

from enum import StrEnum


class GroupProperty(StrEnum):
    """What a group may do beyond the ordinary."""

    #: Members share the group's priority and see and manage each other's jobs (PRI).
    JOB_SHARING = "JOB_SHARING"
