"""Empty answers without a write: what the index shows is checked by one statement that only reads (ADR 56)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from matching.services.claim import Claimant
from pilots.domain.pilot import PilotStatus
from wms.kernel.fast.statements import ask_prepared

#: Seconds: what is stored with a pilot about its empty answers is at most this old.
WRITTEN_EVERY_S: Final = 60.0

# No row: wms_close_request must decide. The lease of a repeated request is visible here unless its claim has not ended;
# that claim locks the row of the pilot first, so xmax is its id. Left by another transaction, xmax does no harm: the
# next write resets it. (wms_close_request itself leaves its own id in both xmin and xmax.)
# Uses index: task_queue_change_xid
_KNOWN_EMPTY: Final = """
SELECT pilot.nothing_left::text
  FROM pilots_pilot AS pilot
 WHERE pilot.id = %s
   AND (pilot.xmax = '0'::xid OR pilot.xmax = pilot.xmin)
   AND pilot.revoked_at IS NULL AND pilot.ended_at IS NULL
   AND pilot.drained_at IS NULL AND pilot.black_hole_id IS NULL
   AND pilot.status = %s
   AND least(pilot.last_seen_at, pilot.nothing_at) > wms_now() - make_interval(secs => %s)
   AND NOT EXISTS (
       SELECT FROM matching_match AS lease WHERE lease.pilot_id = pilot.id AND lease.request_id = %s
   )
   AND NOT EXISTS (
       SELECT FROM taskqueues_taskqueuechange
        WHERE xid >= pg_snapshot_xmin(%s::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, %s::pg_snapshot)
   )
"""


def is_known_empty(claimant: Claimant, *, left: Mapping[str, int], unchanged_since: str | None) -> bool:
    """Return whether a request that got no job may be answered so, with nothing to write.

    It may if the request has no lease, if the pilot may go on, and if its last empty answer for the same reason was
    stored within WRITTEN_EVERY_S.

    Args:
        claimant: the pilot and its request.
        left: task queues left after each condition.
        unchanged_since: snapshot (pg_snapshot) of the index; not if the task queues have changed since. None: they may.
    """
    rows = ask_prepared(
        _KNOWN_EMPTY,
        claimant.pilot_id,
        PilotStatus.RUNNING,
        WRITTEN_EVERY_S,
        claimant.request_id,
        unchanged_since,
        unchanged_since,
    )
    return any(stored is not None and _lacking(msgspec.json.decode(stored)) == _lacking(left) for (stored,) in rows)


def _lacking(left: Mapping[str, int]) -> frozenset[str]:
    """Return the conditions that leave no task queue: the reason of an empty answer."""
    return frozenset(name for name, count in left.items() if not count)
