"""Empty answers without a write: what the index shows is checked by one statement that only reads (ADR 56)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from matching.services.claim import Claimant
from pilots.domain.pilot import PilotStatus
from taskqueues.services.index.snapshot import Snapshot
from wms.kernel.fast.statements import query_prepared

#: Seconds: what is stored with a pilot about its empty answers is at most this old.
WRITTEN_EVERY_S: Final = 60.0
#: Seconds by which the time of the index may differ from that of the database.
_SAME_TIME_S: Final = 1.0

# The first column is null if wms_close_request must decide. The lease of a repeated request is visible here unless its
# claim has not ended; that claim locks the row of the pilot first, so xmax is its id. Left by another transaction, xmax
# does no harm: the next write resets it. (wms_close_request itself leaves its own id in both xmin and xmax.)
# Uses index: task_queue_change_xid
_STATE: Final = """
SELECT CASE WHEN (pilot.xmax = '0'::xid OR pilot.xmax = pilot.xmin)
             AND pilot.revoked_at IS NULL AND pilot.ended_at IS NULL
             AND pilot.drained_at IS NULL AND pilot.black_hole_id IS NULL
             AND pilot.status = %s
             AND least(pilot.last_seen_at, pilot.nothing_at) > wms_now() - make_interval(secs => %s)
             AND NOT EXISTS (
                 SELECT FROM matching_match AS lease WHERE lease.pilot_id = pilot.id AND lease.request_id = %s
             )
            THEN pilot.nothing_left::text
       END,
       NOT EXISTS (
           SELECT FROM taskqueues_taskqueuechange
            WHERE xid >= pg_snapshot_xmin(%s::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, %s::pg_snapshot)
       ) AND (abs(extract(epoch FROM wms_now() - %s::timestamptz)) < %s) IS NOT FALSE
  FROM pilots_pilot AS pilot
 WHERE pilot.id = %s
"""


class EmptyAnswer(NamedTuple):
    """Facts about the answer to a request that got no job."""

    #: It may be given with nothing to write: the request has no lease, the pilot may go on, and its last empty answer
    #: for the same reason was stored within WRITTEN_EVERY_S.
    is_stored: bool
    #: No task queue has changed since the search, and the database's clock, by which jobs are held back, was not set.
    is_current: bool


def empty_answer(claimant: Claimant, *, left: Mapping[str, int], searched: Snapshot | None) -> EmptyAnswer:
    """Return the facts about the answer to a request that got no job.

    Args:
        claimant: the pilot and its request.
        left: task queues left after each condition.
        searched: the task queues that were searched; None: changes since then do not matter.
    """
    rows = query_prepared(
        _STATE,
        PilotStatus.RUNNING,
        WRITTEN_EVERY_S,
        claimant.request_id,
        *((None, None, None) if searched is None else (searched.view.seen, searched.view.seen, searched.now())),
        _SAME_TIME_S,
        claimant.pilot_id,
    )
    for stored, is_current in rows:
        is_stored = stored is not None and _lacking(msgspec.json.decode(stored)) == _lacking(left)
        return EmptyAnswer(is_stored=is_stored, is_current=is_current)
    return EmptyAnswer(is_stored=False, is_current=False)


def _lacking(left: Mapping[str, int]) -> frozenset[str]:
    """Return the conditions that leave no task queue: the reason of an empty answer."""
    return frozenset(name for name, count in left.items() if not count)
