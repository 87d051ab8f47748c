"""Terms and records of pilots: statuses and credentials."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType


class PilotStatus(StrEnum):
    """Status of a pilot, from its submission to a computing element until its end (PIL §2.3)."""

    SUBMITTED = "Submitted"
    WAITING = "Waiting"
    RUNNING = "Running"
    #: Not started in the time that its director allows. It is killed, and keeps this status after its end.
    STALLED = "Stalled"
    #: Silent after its start; or gone from the batch system without an exit code or reason.
    LOST = "Lost"
    DONE = "Done"
    FAILED = "Failed"
    ABORTED = "Aborted"


#: {status: possible next ones}. A pilot that never ran becomes Aborted; a Stalled one may still start.
TRANSITIONS: Mapping[PilotStatus, frozenset[PilotStatus]] = MappingProxyType(
    {
        PilotStatus.SUBMITTED: frozenset(
            {PilotStatus.WAITING, PilotStatus.RUNNING, PilotStatus.STALLED, PilotStatus.ABORTED, PilotStatus.LOST}
        ),
        # A pilot made by hand may report its end before it requests a job.
        PilotStatus.WAITING: frozenset(
            {
                PilotStatus.RUNNING,
                PilotStatus.STALLED,
                PilotStatus.DONE,
                PilotStatus.FAILED,
                PilotStatus.ABORTED,
                PilotStatus.LOST,
            }
        ),
        PilotStatus.STALLED: frozenset({PilotStatus.RUNNING, PilotStatus.ABORTED, PilotStatus.LOST}),
        # A pilot killed because it did not start may have registered at the same moment: it is Stalled again.
        PilotStatus.RUNNING: frozenset(
            {PilotStatus.DONE, PilotStatus.FAILED, PilotStatus.ABORTED, PilotStatus.LOST, PilotStatus.STALLED}
        ),
        PilotStatus.DONE: frozenset(),
        PilotStatus.FAILED: frozenset(),
        PilotStatus.ABORTED: frozenset(),
        PilotStatus.LOST: frozenset(),
    }
)
#: Statuses that only ended pilots have.
ENDED = frozenset(status for status, targets in TRANSITIONS.items() if not targets)
#: Statuses that an ended pilot may have. A stalled one may also wait in its batch system until it is killed there.
MAY_END = ENDED | {PilotStatus.STALLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotCredential:
    """The content of a pilot's token: which pilot it is; ``request.auth`` of the pilot's requests."""

    pilot_id: int
    expires_at: datetime


#: Prefix of the single-use secrets that directors give to pilots.
PILOT_SECRET_PREFIX = "wmsr_"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCredential:
    """The content of a director's secret: the one pilot that it may register."""

    pilot_id: int
