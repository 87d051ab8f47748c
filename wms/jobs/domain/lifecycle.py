"""The statuses of a job and what may follow what; choices, constraints, updates and documentation derive from here."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class JobStatus(StrEnum):
    """Status of a job, spelt as on the wire and in the database."""

    RECEIVED = "Received"
    CHECKING = "Checking"
    WAITING = "Waiting"
    HELD = "Held"
    MATCHED = "Matched"
    RUNNING = "Running"
    STALLED = "Stalled"
    COMPLETING = "Completing"
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

#: A pilot holds a lease on the job.
LEASED = frozenset({JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.STALLED, JobStatus.COMPLETING})
#: Nothing runs and nothing waits any more; only an explicit request changes it.
FINAL = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED, JobStatus.DELETED})


def sources_of(target: JobStatus) -> frozenset[JobStatus]:
    """Return the statuses from which *target* can be reached in one step."""
    return frozenset(source for source, targets in TRANSITIONS.items() if target in targets)
