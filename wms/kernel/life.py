"""Events in the lives of jobs and pilots, as lines of the log: their names and fields (docs/operators.md, Logs)."""

import logging
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypedDict, Unpack
from uuid import UUID

from django.db import connection, transaction

from wms.kernel.log_lines import Ids

logger = logging.getLogger("wms.life")

#: Jobs of one line; a larger set is on several lines, each below 10 kB, where a line for each job would take 150 bytes
#: for a job of a submission of ten thousand, not 12.
JOBS_OF_A_LINE: Final = 500


class LifeEvent(StrEnum):
    """The names of the events."""

    JOB_SUBMITTED = "job.submitted"
    JOB_REFUSED = "job.refused"
    JOB_WAITING = "job.waiting"
    JOB_CHECKING = "job.checking"
    JOB_HELD = "job.held"
    JOB_MATCHED = "job.matched"
    JOB_STARTED = "job.started"
    JOB_STALLED = "job.stalled"
    JOB_LOST = "job.lost"
    JOB_RESCHEDULED = "job.rescheduled"
    JOB_ENDED = "job.ended"
    JOB_KILLED = "job.killed"
    JOB_DELETED = "job.deleted"
    PILOT_SUBMITTED = "pilot.submitted"
    PILOT_STARTED = "pilot.started"
    PILOT_ENDED = "pilot.ended"


class LifeFields(TypedDict, total=False):
    """The fields of the lines, each left out where it is None, empty, or not known without a query."""

    #: Id of the job, or of all jobs to which it has happened with the same other fields.
    job: int | Sequence[int]
    #: Id of the pilot.
    pilot: int
    #: Names: of the job's owner with group and VO, and of the place; or those of the pilot.
    user: str
    group: str | None
    vo: str
    site: str | None
    ce: str | None
    queue: str | None
    #: Name of the node.
    host: str
    #: Of the job or pilot after the event.
    status: str
    #: In words: the minor status of the job, the reason of the pilot's end, or the sentence of the refusal.
    reason: str
    #: Who caused it: a user, ``pilot 7``, ``lease expirer``.
    source: str
    #: Of the error with which it was refused.
    code: str
    #: Of the payload.
    exit_code: int | None
    lease: UUID
    submission: UUID
    #: Of the pilot at its batch system.
    batch_id: str


def tell(event: LifeEvent, **fields: Unpack[LifeFields]) -> None:
    """Write a line for the event as soon as the current transaction has committed; none if it is rolled back."""
    if not logger.isEnabledFor(logging.INFO):
        return
    facts = {name: value for name, value in fields.items() if value not in (None, "")}
    jobs = fields.get("job")
    if jobs is None or isinstance(jobs, int):
        lines = [facts]
    else:
        starts = range(0, len(jobs), JOBS_OF_A_LINE)
        lines = [facts | {"job": Ids(jobs[start : start + JOBS_OF_A_LINE])} for start in starts]
    for line in lines:
        # NB: outside of a transaction, on_commit() would connect to a database that may be away by now.
        if connection.in_atomic_block:
            transaction.on_commit(partial(logger.info, event.value, extra=line), robust=True)
        else:
            logger.info(event.value, extra=line)
