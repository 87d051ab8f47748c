"""Actions on submitted jobs."""

from enum import StrEnum


class Action(StrEnum):
    """An action on one job or on many, spelt as in the REST contract."""

    KILL = "kill"
    RESCHEDULE = "reschedule"
    DELETE = "delete"
    HOLD = "hold"
    RELEASE = "release"
