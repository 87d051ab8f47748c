"""The words and records of the pilots app: statuses, what a token opens, what the watchdog allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

#: Raised when an agent of before could no longer work with this server.
PROTOCOL_VERSION = 1


class PilotStatus(StrEnum):
    """Status of a pilot, from its submission to a computing element until its end (PIL §2.3)."""

    SUBMITTED = "Submitted"
    WAITING = "Waiting"
    RUNNING = "Running"
    #: Not started within the time that its director allows; it is killed, and still Stalled when it has ended.
    STALLED = "Stalled"
    #: Started, then silent; or gone with its director, so that nobody knows how it ended.
    LOST = "Lost"
    DONE = "Done"
    FAILED = "Failed"
    ABORTED = "Aborted"


#: What a pilot may become. One that never ran is Aborted; a Stalled one may start all the same.
TRANSITIONS: Mapping[PilotStatus, frozenset[PilotStatus]] = MappingProxyType(
    {
        PilotStatus.SUBMITTED: frozenset(
            {PilotStatus.WAITING, PilotStatus.RUNNING, PilotStatus.STALLED, PilotStatus.ABORTED, PilotStatus.LOST}
        ),
        # One that was made by hand may report that it ends before it asks for a job.
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
        # A pilot that was killed for not having started may have registered in the same moment: it is Stalled again.
        PilotStatus.RUNNING: frozenset(
            {PilotStatus.DONE, PilotStatus.FAILED, PilotStatus.ABORTED, PilotStatus.LOST, PilotStatus.STALLED}
        ),
        PilotStatus.DONE: frozenset(),
        PilotStatus.FAILED: frozenset(),
        PilotStatus.ABORTED: frozenset(),
        PilotStatus.LOST: frozenset(),
    }
)
#: Statuses of pilots that have ended.
ENDED = frozenset(status for status, targets in TRANSITIONS.items() if not targets)
#: Statuses with which a pilot may end. A stalled one may also still wait in its batch system, until it is killed there.
MAY_END = ENDED | {PilotStatus.STALLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotCredential:
    """What a pilot's token says: which pilot it is; ``request.auth`` of such a request."""

    pilot_id: int
    expires_at: datetime


#: How the single-use secrets that directors hand over to pilots begin.
PILOT_SECRET_PREFIX = "wmsr_"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretCredential:
    """What a director's secret opens: the registration of the one pilot that it was made for."""

    pilot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogMargins:
    """How far a payload may go before the pilot ends it (PIL §2.1)."""

    #: Between two looks at the payload, in seconds.
    period_s: int = 10
    #: Times what the job asked for, CPU time or memory: a little more harms nobody and saves many jobs.
    cpu_factor: float = 1.1
    memory_factor: float = 1.1
    #: Below so much free disk the pilot itself could no longer write its output.
    min_free_disk_mb: int = 500
    #: Without so much CPU per wall-clock time, over so long, it is stalled (DIRAC's watchdog: 5 % over 30 minutes).
    stalled_s: int = 1800
    stalled_cpu_fraction: float = 0.05
    #: Longest window that a job may ask for instead; 0: any, also none.
    max_stalled_s: int = 86400
    #: At this part of the window the job's owner is warned.
    stalled_warning_fraction: float = 0.5
    #: At this part of a limit the job's owner is warned.
    warning_fraction: float = 0.9
    #: Of standard output and of standard error; 0: as large as they like.
    stream_max_mb: int = 1000
    #: Of what a job writes that asked for no disk, beside its input; 0: as much as the node has above min_free_disk_mb.
    unasked_disk_mb: int = 1000
