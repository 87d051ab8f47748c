"""Numbers of the jobs of one submission."""

from __future__ import annotations

from collections.abc import Mapping

from .connection import Connection
from .wire.protocol import API_V1

#: All statuses of the list of jobs, which leaves deleted ones out unless they are named.
EVERY_STATUS = (
    "Received,Checking,Waiting,Held,Matched,Running,Stalled,Completing,Rescheduled,Failed,Done,Killed,Deleted"
)


def counts_of(connection: Connection, submission_id: str) -> Mapping[str, int]:
    """Return {status: number of the submission's jobs}, without those that are 0.

    NB: not from the submission itself, whose answer also counts the jobs of each site.
    """
    query = {"job_group_id": submission_id, "status": EVERY_STATUS}
    answer = connection.get(f"{API_V1}jobs/summary/", query=query, expects="results")
    return {str(row["status"]): int(row["count"]) for row in answer["results"]}
