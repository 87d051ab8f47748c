"""The statements that the ORM cannot say."""

import json
from collections.abc import Collection, Iterable, Mapping

from django.db import connection

from wms.kernel.db import array_of, transaction_required

#: Django's select_for_update knows no FOR KEY SHARE, the one lock that keeps a queue from being removed but lets any
#: number of submissions put jobs into it side by side.
_KEEP_QUEUES = """
SELECT signature, id
  FROM taskqueues_taskqueue
 WHERE signature = ANY(%s)
 ORDER BY id
   FOR KEY SHARE
"""


@transaction_required
def keep_queues(signatures: Collection[bytes]) -> dict[bytes, int]:
    """Return {signature: id} of those queues that exist, none of which can be removed in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_QUEUES, [list(signatures)])
        return {bytes(signature): pk for signature, pk in cursor.fetchall()}


#: One statement with one parameter, whatever the number of queues; the ORM writes and binds each value of each row.
#: In one order for all, or two submissions of the same new definitions would wait for each other.
_INSERT_QUEUES = """
INSERT INTO taskqueues_taskqueue (
       signature, owner_id, group_id, vo_id, setup, cpu_time_s, submit_pools, pilot_types, sites, banned_sites,
       grid_ces, grid_middlewares, platforms, job_type, tags, processors, memory_mb, priority, weight, jobs_of_level,
       created_at)
SELECT signature, owner_id, group_id, vo_id, setup, cpu_time_s, submit_pools, pilot_types, sites, banned_sites,
       grid_ces, grid_middlewares, platforms, job_type, tags, processors, memory_mb, priority, weight, jobs_of_level,
       created_at
  FROM json_populate_recordset(NULL::taskqueues_taskqueue, %s)
 ORDER BY signature
    ON CONFLICT DO NOTHING
"""


@transaction_required
def insert_queues(rows: Iterable[Mapping[str, object]]) -> None:
    """Insert those of the queues that do not exist: {column: value as JSON text of PostgreSQL has it} each."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_QUEUES, [json.dumps(list(rows))])


#: One statement with three arrays costs a fifth of the ORM's rows of parameters. What came is told to the indexes.
_INSERT_QUEUED_JOBS = """
WITH came AS (
    INSERT INTO taskqueues_queuedjob (job_id, task_queue_id, user_priority)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::smallint[])
    RETURNING task_queue_id, user_priority
)
INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs)
SELECT task_queue_id, user_priority, count(*) FROM came GROUP BY task_queue_id, user_priority
"""


@transaction_required
def insert_queued_jobs(rows: Iterable[tuple[int, int, int]]) -> None:
    """Put jobs into queues: (job id, task queue id, user priority) each."""
    columns = [array_of(column) for column in zip(*rows, strict=True)]
    if columns:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_QUEUED_JOBS, columns)


#: Locked by primary key before the delete: two withdrawals of overlapping sets would deadlock.
_DELETE_QUEUED_JOBS = """
WITH waiting AS MATERIALIZED (
    SELECT job_id FROM taskqueues_queuedjob WHERE job_id = ANY(%s::bigint[]) ORDER BY job_id FOR UPDATE
), gone AS (
    DELETE FROM taskqueues_queuedjob AS queued USING waiting
     WHERE queued.job_id = waiting.job_id
    RETURNING queued.job_id, task_queue_id, user_priority
), told AS (
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs)
    SELECT task_queue_id, user_priority, -count(*) FROM gone GROUP BY task_queue_id, user_priority
)
SELECT job_id FROM gone
"""


@transaction_required
def delete_queued_jobs(job_ids: Collection[int]) -> frozenset[int]:
    """Take the jobs out of their queues; return those that were still there."""
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_QUEUED_JOBS, [array_of(job_ids)])
        return frozenset(job_id for (job_id,) in cursor.fetchall())


#: The ORM's bulk_update says CASE WHEN … for each row: ten thousand priorities in ten seconds, not in a tenth of one.
_SET_PRIORITIES = """
UPDATE taskqueues_taskqueue AS queue
   SET priority = new.priority
  FROM unnest(%s::bigint[], %s::double precision[]) AS new (id, priority)
 WHERE queue.id = new.id
"""


@transaction_required
def set_priorities(priority_of: Mapping[int, float]) -> None:
    """Write the priorities of task queues: {task queue id: priority}. One that is gone meanwhile is passed over."""
    with connection.cursor() as cursor:
        cursor.execute(_SET_PRIORITIES, [list(priority_of), list(priority_of.values())])


_KEEP_POOL = """
SELECT id FROM taskqueues_submitpool WHERE id = %s FOR KEY SHARE
"""


@transaction_required
def keep_pool(pool_id: str) -> bool:
    """Return whether the submit pool exists, which then cannot be removed in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_POOL, [pool_id])
        return cursor.fetchone() is not None
