"""SQL statements that the ORM cannot express."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime

from django.db import connection

from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.shares import USER_PRIORITIES, WEIGHT_OF_PRIORITY, GroupShare
from taskqueues.domain.usage import Amounts
from wms.kernel.db import array_of, ids_in, transaction_required
from wms.kernel.fast.statements import query_prepared

#: FOR KEY SHARE, which Django's select_for_update lacks, is the only lock that keeps a task queue from being removed
#: and still lets any number of submissions put jobs into it concurrently.
_KEEP_QUEUES = """
SELECT signature, id
  FROM taskqueues_taskqueue
 WHERE signature = ANY(%s)
 ORDER BY id
   FOR KEY SHARE
"""


@transaction_required
def keep_queues(signatures: Collection[bytes]) -> dict[bytes, int]:
    """Return {signature: id} of the existing task queues; none of them can be removed in this transaction."""
    return {bytes(signature): pk for signature, pk in query_prepared(_KEEP_QUEUES, list(signatures))}


#: One statement with one parameter for any number of task queues; the ORM writes and binds each value of each row. In
#: one order for all: otherwise two submissions of the same new definitions could deadlock.
_QUEUE_COLUMNS = ", ".join(
    (
        *(field.name for field in fields(QueueDefinition)),
        *("signature", "priority", "weight", "jobs_of_level", "created_at"),
    )
)
_INSERT_QUEUES = f"""
INSERT INTO taskqueues_taskqueue ({_QUEUE_COLUMNS})
SELECT {_QUEUE_COLUMNS}
  FROM json_populate_recordset(NULL::taskqueues_taskqueue, %s)
 ORDER BY signature
    ON CONFLICT DO NOTHING
"""  # noqa: S608 - names of fields


@transaction_required
def insert_queues(rows: Iterable[Mapping[str, object]]) -> None:
    """Insert those task queues that do not exist, each as {column: value in PostgreSQL's JSON form}."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_QUEUES, [json.dumps(list(rows))])


_LOCK_EMPTY_QUEUES = """
SELECT id
  FROM taskqueues_taskqueue AS task_queue
 WHERE (%(among)s::bigint[] IS NULL OR id = ANY(%(among)s::bigint[]))
   AND NOT EXISTS (SELECT FROM taskqueues_queuedjob AS waiting WHERE waiting.task_queue_id = task_queue.id)
 ORDER BY id
 LIMIT %(at_most)s
   FOR UPDATE SKIP LOCKED
"""


@transaction_required
def lock_empty_queues(*, among: Collection[int] | None, at_most: int) -> list[int]:
    """Lock task queues that seem empty, *among* these primary keys or all; return theirs, ascending."""
    with connection.cursor() as cursor:
        bounds = {"among": None if among is None else array_of(among), "at_most": at_most}
        cursor.execute(_LOCK_EMPTY_QUEUES, bounds)
        return [pk for (pk,) in cursor.fetchall()]


_DELETE_EMPTY_QUEUES = """
WITH gone AS (
    DELETE FROM taskqueues_taskqueue AS task_queue
     WHERE id = ANY(%(locked)s::bigint[])
       AND NOT EXISTS (SELECT FROM taskqueues_queuedjob AS waiting WHERE waiting.task_queue_id = task_queue.id)
    RETURNING id, group_id
), change AS (
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) SELECT id, 0 FROM gone
), marked AS (
    INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT DISTINCT group_id, %(now)s FROM gone
)
SELECT count(*) FROM gone
"""


@transaction_required
def delete_empty_queues(locked: Collection[int], *, now: datetime) -> int:
    """Delete those task queues that are empty, and write the changes for the indexes; return the number.

    Args:
        locked: primary keys of rows locked in an earlier statement: this one sees what was committed before that.
        now: time from which their groups must be recalculated.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_EMPTY_QUEUES, {"locked": array_of(locked), "now": now})
        (deleted,) = cursor.fetchone()
    return int(deleted)


#: One statement with three arrays costs a fifth of the ORM's rows of parameters. It writes the changes for the indexes.
_INSERT_QUEUED_JOBS = """
WITH came AS (
    INSERT INTO taskqueues_queuedjob (job_id, task_queue_id, user_priority)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::smallint[])
    RETURNING task_queue_id, user_priority
)
INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs)
SELECT task_queue_id, user_priority, count(*) FROM came GROUP BY task_queue_id, user_priority
RETURNING id
"""


@transaction_required
def insert_queued_jobs(rows: Iterable[tuple[int, int, int]]) -> None:
    """Put jobs into task queues: (job id, task queue id, user priority) each."""
    columns = [array_of(column) for column in zip(*rows, strict=True)]
    if columns:
        query_prepared(_INSERT_QUEUED_JOBS, *columns)


#: Locked by primary key before the delete: two withdrawals of overlapping sets would deadlock. The locked ids are
#: passed on as an array, which is looked up in the index; a join may read the whole table, each time for thousands of
#: jobs.
#: Uses index: taskqueues_queuedjob_pkey
_DELETE_QUEUED_JOBS = """
WITH waiting AS MATERIALIZED (
    SELECT job_id FROM taskqueues_queuedjob WHERE job_id = ANY(%s::bigint[]) ORDER BY job_id FOR UPDATE
), gone AS (
    DELETE FROM taskqueues_queuedjob WHERE job_id = ANY(ARRAY(SELECT job_id FROM waiting))
    RETURNING job_id, task_queue_id, user_priority
), change AS (
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs)
    SELECT task_queue_id, user_priority, -count(*) FROM gone GROUP BY task_queue_id, user_priority
)
SELECT string_agg(job_id::text, ',') FROM gone
"""


@transaction_required
def delete_queued_jobs(job_ids: Collection[int]) -> frozenset[int]:
    """Take the jobs out of their task queues; return those that were still there."""
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_QUEUED_JOBS, [array_of(job_ids)])
        (ids,) = cursor.fetchone()
    return frozenset(ids_in(ids))


_MARK_GROUPS = """
INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT unnest(%s::bigint[]), %s RETURNING id
"""


@transaction_required
def mark_groups(group_ids: Iterable[int], *, now: datetime) -> None:
    """Mark these groups for recalculation."""
    query_prepared(_MARK_GROUPS, array_of(group_ids), now)


_STORED_WEIGHTS = """
SELECT task_queue.group_id, task_queue.owner_id, sum(task_queue.weight)
  FROM taskqueues_taskqueue AS task_queue
  JOIN accounts_user AS owner ON owner.id = task_queue.owner_id
  JOIN accounts_membership AS membership
    ON membership.user_id = task_queue.owner_id AND membership.group_id = task_queue.group_id
 WHERE task_queue.group_id = ANY(%s::bigint[]) AND task_queue.weight > 0 AND owner.is_active
 GROUP BY task_queue.group_id, task_queue.owner_id
 ORDER BY task_queue.group_id, task_queue.owner_id
"""


def stored_weights(group_ids: Iterable[int]) -> list[tuple[int, int, float]]:
    """Return (group, owner, stored weight of the owner's task queues), of owners who are active members."""
    return list(query_prepared(_STORED_WEIGHTS, array_of(group_ids)))


#: Most submissions meet none; the ORM takes ten times as long to write the query.
_QUOTAS = """
SELECT id
  FROM taskqueues_limit
 WHERE waiting IS NOT NULL
   AND (vo_id IS NULL OR vo_id = ANY(%s))
   AND (group_id IS NULL OR group_id = ANY(%s))
   AND (user_id IS NULL OR user_id = ANY(%s))
   AND (job_type = '' OR job_type = ANY(%s))
"""


def quotas_of(
    *, vo_ids: Iterable[int], group_ids: Iterable[int], owner_ids: Iterable[int], job_types: Iterable[str]
) -> list[int]:
    """Return the primary keys of the quotas that each of the four columns allows to apply to one of the jobs."""
    rows = query_prepared(_QUOTAS, list(vo_ids), list(group_ids), list(owner_ids), list(job_types))
    return [pk for (pk,) in rows]


#: Counts, divides, writes and records changes in one statement, because all must be of one snapshot: that of
#: counted_in, to which an index adds later changes. wms_waiting_jobs counts, with several workers for a large table.
#: Uses index: queued_job_oldest_of_its_kind (when only some groups are evaluated)
_DIVIDE_SHARES = """
WITH queue AS (
    SELECT task_queue.id, task_queue.group_id, of_group.share,
           CASE WHEN of_group.shares_jobs THEN 0 ELSE task_queue.owner_id END AS entity_id,
           -- Otherwise its owner is suspended, or has left the group: others divide the share.
           owner.is_active AND membership.id IS NOT NULL AS takes_part,
           task_queue.priority AS old_priority, task_queue.weight AS old_weight,
           task_queue.jobs_of_level AS old_jobs_of_level,
           counted.jobs_of_level,
           (SELECT sum(jobs * weight)
              FROM unnest(counted.jobs_of_level, %(weights)s::double precision[]) AS level (jobs, weight)) AS weight
      FROM unnest(%(groups)s::bigint[], %(shares)s::double precision[], %(shares_jobs)s::boolean[])
           AS of_group (id, share, shares_jobs)
      JOIN taskqueues_taskqueue AS task_queue ON task_queue.group_id = of_group.id
      JOIN accounts_user AS owner ON owner.id = task_queue.owner_id
      LEFT JOIN accounts_membership AS membership
        ON membership.user_id = task_queue.owner_id AND membership.group_id = task_queue.group_id
      LEFT JOIN wms_waiting_jobs(
           CASE WHEN NOT %(all)s
                THEN ARRAY(SELECT id FROM taskqueues_taskqueue WHERE group_id = ANY(%(groups)s::bigint[])) END
           ) AS waiting ON waiting.task_queue_id = task_queue.id
     CROSS JOIN LATERAL (
           SELECT coalesce(waiting.jobs_of_level, array_fill(0, ARRAY[%(levels)s])) AS jobs_of_level
           ) AS counted
), entity AS (
    SELECT group_id, entity_id, sum(weight) AS weight FROM queue WHERE weight > 0 AND takes_part
     GROUP BY group_id, entity_id
), entities AS (
    SELECT group_id, count(*) AS number FROM entity GROUP BY group_id
), evaluated AS (
    SELECT queue.*,
           -- An empty queue keeps its priority: with 0 a job that enters it would not be drawn until the next run.
           CASE WHEN NOT queue.takes_part THEN 0
                WHEN queue.weight > 0 THEN queue.share / entities.number * queue.weight / entity.weight
                ELSE queue.old_priority END AS priority
      FROM queue LEFT JOIN entity USING (group_id, entity_id) LEFT JOIN entities USING (group_id)
), compared AS (
    SELECT id, priority, weight, jobs_of_level,
           abs(priority - old_priority) > %(tolerance)s * greatest(priority, old_priority) AS has_another_priority,
           abs(weight - old_weight) > %(tolerance)s * greatest(weight, old_weight)
           OR jobs_of_level <> old_jobs_of_level AS has_other_jobs
      FROM evaluated
), changed AS (
    UPDATE taskqueues_taskqueue AS task_queue
       SET priority = compared.priority, weight = compared.weight, jobs_of_level = compared.jobs_of_level
      FROM compared
     WHERE task_queue.id = compared.id AND (has_another_priority OR has_other_jobs)
 RETURNING task_queue.id, has_another_priority
), change AS (
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs, counted_in)
    SELECT id, 0, pg_current_snapshot()::text FROM changed
), unsettled AS (
    -- An empty queue has no part now. Its removal marks its group; but if a job enters it before, nothing else does.
    INSERT INTO taskqueues_changedgroup (group_id, changed_at)
    SELECT DISTINCT group_id, wms_now() FROM queue WHERE weight = 0
)
SELECT count(*) FILTER (WHERE has_another_priority) FROM changed
"""
#: Relative difference up to which priorities and weights are equal: sums depend on the order of the summands.
_TOLERANCE = 1e-9


@transaction_required
def divide_shares(shares: Collection[GroupShare], *, of_all_groups: bool) -> int:
    """Recalculate all task queues of these groups, as ``split_share`` does; return how many got another priority.

    Only changed rows are written, and each is recorded as changed for the indexes. Groups with an empty task queue are
    marked for recalculation.
    """
    values: dict[str, float | list[float]] = {
        "all": of_all_groups,
        "groups": [share.group_id for share in shares],
        "shares": [share.share for share in shares],
        "shares_jobs": [share.shares_jobs for share in shares],
        "weights": [WEIGHT_OF_PRIORITY[priority] for priority in range(USER_PRIORITIES)],
        "levels": USER_PRIORITIES,
        "tolerance": _TOLERANCE,
    }
    with connection.cursor() as cursor:
        # A million rows: the planner would compile the statement, which takes longer than it saves.
        cursor.execute("SET LOCAL jit = off")
        cursor.execute(_DIVIDE_SHARES, values)
        (changed,) = cursor.fetchone()
    return int(changed)


#: The ORM's upsert overwrites; this one adds.
_ADD_DELIVERIES = """
INSERT INTO taskqueues_delivery AS delivery (began_at, group_id, cpu_segment_s, matches, processor_s)
SELECT %s, * FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::double precision[])
    ON CONFLICT (began_at, group_id, cpu_segment_s)
    DO UPDATE SET matches = delivery.matches + excluded.matches,
                  processor_s = delivery.processor_s + excluded.processor_s
"""


@transaction_required
def add_deliveries(amounts: Amounts, *, began_at: datetime) -> None:
    """Add amounts to those of the interval that began at that time."""
    rows = [(group, segment, amount.matches, amount.processor_s) for (group, segment), amount in amounts.items()]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_ADD_DELIVERIES, [began_at, *(list(column) for column in zip(*rows, strict=True))])


_KEEP_POOL = """
SELECT id FROM taskqueues_submitpool WHERE id = %s FOR KEY SHARE
"""


@transaction_required
def keep_pool(pool_id: str) -> bool:
    """Return whether the submit pool exists; it then cannot be removed in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_POOL, [pool_id])
        return cursor.fetchone() is not None


#: The ORM's insertion that ignores conflicts does not return whether there was one.
_INSERT_POOL = """
INSERT INTO taskqueues_submitpool (id, vo_id, requirements, refreshed_at, last_used_at)
VALUES (%(id)s, %(vo)s, %(requirements)s, %(now)s, %(now)s)
    ON CONFLICT DO NOTHING
RETURNING id
"""


@transaction_required
def insert_pool(pool_id: str, *, vo_id: int, requirements: Mapping[str, object], now: datetime) -> bool:
    """Insert the submit pool, unless it exists; waits for a concurrent insertion.

    Returns:
        Whether it was inserted here.
    """
    values: dict[str, str | int | datetime] = {"id": pool_id, "vo": vo_id, "requirements": json.dumps(requirements)}
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_POOL, {**values, "now": now})
        return cursor.fetchone() is not None


#: One array for each pool: building objects of a million memberships takes longer than comparing them.
_MEMBERS_OF_POOLS = """
SELECT submitpool_id, array_agg(queue_id ORDER BY queue_id)
  FROM taskqueues_submitpool_queues
 WHERE submitpool_id = ANY(%s)
 GROUP BY submitpool_id
"""


def members_of_pools(pool_ids: Iterable[str]) -> dict[str, list[int]]:
    """Return {pool: primary keys of its queues, sorted}; pools without queues are missing."""
    with connection.cursor() as cursor:
        cursor.execute(_MEMBERS_OF_POOLS, [list(pool_ids)])
        return dict(cursor.fetchall())


#: The inverse: the pools of each queue.
_POOLS_OF_QUEUES = """
SELECT member.queue_id, array_agg(pool.id ORDER BY pool.id)
  FROM taskqueues_submitpool AS pool JOIN taskqueues_submitpool_queues AS member ON member.submitpool_id = pool.id
 WHERE pool.vo_id = %s
 GROUP BY member.queue_id
"""


def pools_of_queues(*, vo_id: int) -> dict[int, list[str]]:
    """Return {primary key of a queue: the VO's pools that it belongs to, sorted}; queues in none are missing."""
    with connection.cursor() as cursor:
        cursor.execute(_POOLS_OF_QUEUES, [vo_id])
        return dict(cursor.fetchall())


_POOLS_OF_ALL_QUEUES = """
SELECT pool.id
  FROM taskqueues_submitpool_queues AS member JOIN taskqueues_submitpool AS pool ON pool.id = member.submitpool_id
 WHERE member.queue_id = ANY(%(queues)s::bigint[]) AND pool.vo_id = %(vo_id)s
 GROUP BY pool.id
HAVING count(*) = %(count)s
 ORDER BY pool.id
"""


def pools_of_all_queues(queue_ids: Sequence[int], *, vo_id: int) -> list[str]:
    """Return the VO's pools, sorted, that all of the queues belong to; each queue is named once."""
    values: dict[str, str | int] = {"queues": array_of(queue_ids), "vo_id": vo_id, "count": len(queue_ids)}
    with connection.cursor() as cursor:
        cursor.execute(_POOLS_OF_ALL_QUEUES, values)
        return [pool_id for (pool_id,) in cursor.fetchall()]


#: Memberships as two arrays of numbers, with pools by position: otherwise each id would be sent with each of its
#: queues.
_MEMBERS = """
SELECT pool.id AS submitpool_id, member.queue_id
  FROM unnest(%(positions)s::integer[], %(queues)s::bigint[]) AS member (position, queue_id)
  JOIN unnest(%(pools)s::text[]) WITH ORDINALITY AS pool (id, position) USING (position)
"""

_REMOVE_MEMBERS = f"""
WITH gone AS MATERIALIZED ({_MEMBERS})
DELETE FROM taskqueues_submitpool_queues AS member
 USING gone
 WHERE member.submitpool_id = gone.submitpool_id AND member.queue_id = gone.queue_id
"""  # noqa: S608 - both are constants

#: Queues are locked until the end of the transaction: one deleted meanwhile is left out, one deleted later takes its
#: memberships along. In the order of the index, so that its pages are written once each.
_ADD_MEMBERS = f"""
WITH added AS MATERIALIZED ({_MEMBERS}), kept AS MATERIALIZED (
    SELECT id FROM resources_queue WHERE id IN (SELECT queue_id FROM added) ORDER BY id FOR KEY SHARE
)
INSERT INTO taskqueues_submitpool_queues (submitpool_id, queue_id)
SELECT added.submitpool_id, added.queue_id FROM added JOIN kept ON kept.id = added.queue_id
 ORDER BY added.submitpool_id, added.queue_id
    ON CONFLICT DO NOTHING
"""  # noqa: S608 - both are constants


@transaction_required
def remove_members(gone: Mapping[str, Collection[int]]) -> None:
    """Remove queues from pools: {pool: primary keys of queues}. The caller has locked the pools."""
    _write_members(_REMOVE_MEMBERS, gone)


@transaction_required
def add_members(added: Mapping[str, Collection[int]]) -> None:
    """Add queues to pools; as ``remove_members``. Existing memberships and removed queues are ignored."""
    _write_members(_ADD_MEMBERS, added)


def _write_members(statement: str, members: Mapping[str, Collection[int]]) -> None:
    # A statement that writes nothing would still record a change of the configuration for every index.
    if not any(members.values()):
        return
    pools = list(members)
    positions = [position for position, pool in enumerate(pools, start=1) for _ in members[pool]]
    queues = [queue_id for pool in pools for queue_id in members[pool]]
    values: dict[str, str | list[str]] = {"pools": pools, "positions": array_of(positions), "queues": array_of(queues)}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


#: In the order in which submissions write their use of a VO's pools; otherwise the two could deadlock.
_LOCK_POOLS = """
SELECT id FROM taskqueues_submitpool WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
#: NB: a separate statement. One statement that locks and then writes a row meets the version of its snapshot again; if
#: the use of the pool was written since, a transaction waiting there for this lock is waited for: a deadlock.
_NOTE_REFRESHED = """
UPDATE taskqueues_submitpool SET refreshed_at = %(now)s WHERE id = ANY(%(pools)s)
"""


@transaction_required
def note_refreshed(pool_ids: Collection[str], *, now: datetime) -> frozenset[str]:
    """Set the time of the pools' refresh, which locks them; return those that still exist."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_POOLS, [list(pool_ids)])
        living = [pool_id for (pool_id,) in cursor.fetchall()]
        cursor.execute(_NOTE_REFRESHED, {"pools": living, "now": now})
        return frozenset(living)
