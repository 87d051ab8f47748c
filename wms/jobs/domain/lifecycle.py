"""Statuses of jobs, their transitions, from which choices, constraints and updates derive, and actions on jobs."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from wms.wire import protocol


class JobStatus(StrEnum):
    """Status of a job, spelled as in the REST interface and the database."""

    RECEIVED = "Received"
    CHECKING = "Checking"
    WAITING = "Waiting"
    HELD = "Held"
    MATCHED = "Matched"
    RUNNING = protocol.RUNNING
    STALLED = "Stalled"
    COMPLETING = protocol.COMPLETING
    RESCHEDULED = "Rescheduled"
    FAILED = "Failed"
    DONE = "Done"
    KILLED = "Killed"
    DELETED = "Deleted"


TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = MappingProxyType(
    {
        JobStatus.RECEIVED: frozenset(
            {JobStatus.CHECKING, JobStatus.WAITING, JobStatus.FAILED, JobStatus.KILLED, JobStatus.DELETED}
        ),
        JobStatus.CHECKING: frozenset({JobStatus.WAITING, JobStatus.FAILED, JobStatus.KILLED, JobStatus.DELETED}),
        JobStatus.WAITING: frozenset(
            {
                JobStatus.MATCHED,
                JobStatus.HELD,
                JobStatus.CHECKING,
                JobStatus.FAILED,
                JobStatus.KILLED,
                JobStatus.DELETED,
            }
        ),
        JobStatus.HELD: frozenset({JobStatus.WAITING, JobStatus.KILLED, JobStatus.DELETED}),
        JobStatus.MATCHED: frozenset(
            {
                JobStatus.RUNNING,
                JobStatus.COMPLETING,
                JobStatus.FAILED,
                JobStatus.RESCHEDULED,
                JobStatus.KILLED,
                JobStatus.STALLED,
            }
        ),
        JobStatus.RUNNING: frozenset(
            {
                JobStatus.COMPLETING,
                JobStatus.DONE,
                JobStatus.FAILED,
                JobStatus.RESCHEDULED,
                JobStatus.KILLED,
                JobStatus.STALLED,
            }
        ),
        JobStatus.STALLED: frozenset(
            {
                JobStatus.MATCHED,
                JobStatus.RUNNING,
                JobStatus.COMPLETING,
                JobStatus.FAILED,
                JobStatus.RESCHEDULED,
                JobStatus.KILLED,
            }
        ),
        JobStatus.COMPLETING: frozenset(
            {JobStatus.DONE, JobStatus.FAILED, JobStatus.RESCHEDULED, JobStatus.KILLED, JobStatus.STALLED}
        ),
        JobStatus.RESCHEDULED: frozenset({JobStatus.CHECKING, JobStatus.WAITING, JobStatus.FAILED, JobStatus.KILLED}),
        JobStatus.FAILED: frozenset({JobStatus.RESCHEDULED, JobStatus.DELETED}),
        JobStatus.DONE: frozenset({JobStatus.DELETED}),
        JobStatus.KILLED: frozenset({JobStatus.DELETED}),
        JobStatus.DELETED: frozenset(),
    }
)

#: Statuses in which a pilot has a lease on the job.
LEASED = frozenset({JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.STALLED, JobStatus.COMPLETING})
#: Statuses of an ended job, which only an explicit request changes.
FINAL = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED, JobStatus.DELETED})


def sources_of(target: JobStatus) -> frozenset[JobStatus]:
    """Return the statuses from which *target* can be reached in one step."""
    return frozenset(source for source, targets in TRANSITIONS.items() if target in targets)


class Action(StrEnum):
    """An action on one job or on many, spelt as in the REST contract."""

    KILL = "kill"
    RESCHEDULE = "reschedule"
    DELETE = "delete"
    HOLD = "hold"
    RELEASE = "release"
