"""Whether the system is at rest: nothing waits, runs, or has changed lately."""

from typing import Final

from wms.kernel.fast.statements import query_prepared

#: The order, and the indexes, let each part read one row at most: EXISTS might read all leases ever made.
#: Uses index: match_open, pilot_alive_at_queue, task_queue_change_xid
_IS_BUSY: Final = """
    SELECT EXISTS (SELECT FROM taskqueues_taskqueue)
        OR EXISTS (SELECT FROM taskqueues_changedgroup)
        OR EXISTS (SELECT FROM taskqueues_stalesubmitpools)
        OR EXISTS (SELECT FROM resources_replicachange)
        OR EXISTS (SELECT FROM jobs_jobcountchange)
        OR (SELECT id FROM matching_match WHERE ended_at IS NULL ORDER BY pilot_id LIMIT 1) IS NOT NULL
        OR (SELECT id FROM pilots_pilot WHERE ended_at IS NULL ORDER BY queue_id LIMIT 1) IS NOT NULL
        OR (SELECT changed_at FROM taskqueues_taskqueuechange ORDER BY xid DESC LIMIT 1) > now() - interval '1 min'
"""


def is_at_rest() -> bool:
    """Return whether no job waits or has a lease, no pilot lives, and nothing was marked or configured lately.

    Tasks that run every few seconds have nothing to do then, but for what time alone brings.
    """
    ((is_busy,),) = query_prepared(_IS_BUSY)
    return not is_busy  # None: true of nothing, and no change is known
