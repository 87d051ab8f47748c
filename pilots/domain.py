"""The statuses of a pilot."""

from enum import StrEnum


class PilotStatus(StrEnum):
    """Status of a pilot, from its submission to a computing element until its end (PIL §2.3)."""

    SUBMITTED = "Submitted"
    WAITING = "Waiting"
    RUNNING = "Running"
    #: Not started within the time that its director allows.
    STALLED = "Stalled"
    #: Started, then silent.
    LOST = "Lost"
    DONE = "Done"
    FAILED = "Failed"
    ABORTED = "Aborted"


ENDED = frozenset({PilotStatus.DONE, PilotStatus.FAILED, PilotStatus.ABORTED, PilotStatus.LOST})
