"""The statuses of jobs, as the server names them."""

from __future__ import annotations

#: Statuses in which a job stays, unless somebody reschedules it.
ENDED = frozenset({"Done", "Failed", "Killed", "Deleted"})
#: All statuses of the list of jobs, which leaves deleted ones out unless they are named.
EVERY_STATUS = (
    "Received,Checking,Waiting,Held,Matched,Running,Stalled,Completing,Rescheduled,Failed,Done,Killed,Deleted"
)
