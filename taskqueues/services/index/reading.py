"""Readings of the database for the index: all task queues once, then their changes (ADR 14)."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from time import monotonic
from typing import Any, TypeAlias

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from taskqueues.domain.columns import Columns, QueueRow, RowOf
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.shares import USER_PRIORITIES
from taskqueues.models import TaskQueue, TaskQueueQuerySet
from taskqueues.models.changes import CONFIGURATION
from taskqueues.services.index.masks import Masks
from taskqueues.services.index.snapshot import DatabaseView, IndexDelta, LevelChange, QueueCounts, Snapshot
from wms.kernel.db import array_of

#: Primary keys of task queues.
Ids: TypeAlias = NDArray[np.int64]
_NONE: Ids = np.empty(0, dtype=np.int64)
_DEFINITION = tuple(field.name for field in fields(QueueDefinition))

# Numbers come as the bytes of one value: ten thousand rows are parsed in a millisecond, instead of fifty in which no
# other thread of the process runs.
_STANDING_ROW = np.dtype(
    [
        ("task_queue_id", ">i8"),
        ("priority", ">f8"),
        ("trusted", "?"),
        # PostgreSQL's binary form of an array of one dimension.
        ("head_of_jobs", "V20"),
        ("jobs", [("bytes", ">i4"), ("number", ">i4")], (USER_PRIORITIES,)),
    ]
)
_STANDING = """
SELECT string_agg(
           int8send(queue.id) || float8send(priority) || boolsend(is_active AND membership.id IS NOT NULL)
           || array_send(jobs_of_level),
           ''::bytea ORDER BY queue.id
       )
  FROM taskqueues_taskqueue AS queue
  JOIN accounts_user AS owner ON owner.id = owner_id
  LEFT JOIN accounts_membership AS membership
    ON membership.user_id = owner_id AND membership.group_id = queue.group_id
 WHERE %(all)s OR queue.id = ANY(%(queues)s::bigint[])
"""
_COUNT_ROW = np.dtype([("task_queue_id", ">i8"), ("user_priority", ">i4"), ("jobs", ">i8")])
_COUNT = """
SELECT string_agg(int8send(task_queue_id) || int4send(user_priority) || int8send(jobs), ''::bytea)
  FROM (SELECT task_queue_id, user_priority, count(*) AS jobs
          FROM taskqueues_queuedjob
         WHERE %(all)s OR task_queue_id = ANY(%(queues)s::bigint[])
         GROUP BY task_queue_id, user_priority) AS counted
"""
# In both: a change visible in the earlier snapshot is known; a change whose transaction committed later, however long
# ago it was written, is not. The first comparison is for the index on xid.
_CHANGED_ROWS = """
WITH changed AS (
    SELECT task_queue_id, (array_agg(counted_in ORDER BY id DESC) FILTER (WHERE counted_in <> ''))[1] AS counted_in
      FROM taskqueues_taskqueuechange
     WHERE xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
       AND NOT pg_visible_in_snapshot(xid, %(seen)s::pg_snapshot)
       AND user_priority IS NULL
     GROUP BY task_queue_id
)
SELECT coalesce(counted_in, ''), string_agg(int8send(task_queue_id), ''::bytea) FROM changed GROUP BY counted_in
"""
_CHANGED_LEVELS = """
SELECT task_queue_id, user_priority, sum(jobs), bool_or(jobs > 0)
  FROM taskqueues_taskqueuechange
 WHERE xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(xid, %(seen)s::pg_snapshot)
   AND user_priority IS NOT NULL
 GROUP BY task_queue_id, user_priority
"""


def read_all() -> Snapshot:
    """Return a snapshot of all task queues; counting a million waiting jobs takes a fifth of a second."""
    with _one_view() as view:
        come = _definitions(TaskQueue.objects.all())
        standing = _standing(None)
        everyone = np.ones(len(standing.task_queue_id), dtype=np.bool_)
        standing = replace(standing, jobs=_count(standing.task_queue_id, only=None), counted=everyone)
    columns = Columns.of(())
    nothing = Snapshot(
        columns=columns,
        priority=np.zeros(0),
        jobs=np.zeros((0, USER_PRIORITIES), dtype=np.int64),
        masks=Masks(columns),
        row_of=RowOf(columns),
        view=view,
    )
    return nothing.next(IndexDelta(view=view, gone=frozenset(), come=come, standing=standing, levels=[]))


def read_changes(since: Snapshot) -> IndexDelta:
    """Return the changes that are visible now and were not in the snapshot *since*."""
    with _one_view() as view:
        counted_in = _changed_rows(since.view.seen)
        changed = np.concatenate((_NONE, *counted_in.values()))
        levels = _changed_levels(since.view.seen)
        queues = np.union1d(changed, [level.task_queue_id for level in levels]).astype(np.int64)
        new = queues[~since.row_of.holds(queues) & (queues != CONFIGURATION)]
        come = _definitions(TaskQueue.objects.filter(pk__among=new.tolist())) if len(new) else []
        standing = _standing(np.union1d(changed, new))
        standing = _recounted(standing, new=new, counted_in=counted_in)
    counted = frozenset(standing.task_queue_id[standing.counted].tolist())
    gone = np.setdiff1d(changed, np.concatenate((new, standing.task_queue_id, [CONFIGURATION])))
    return IndexDelta(
        view=view,
        configuration_changed=CONFIGURATION in changed,
        gone=frozenset(gone.tolist()),
        come=come,
        standing=standing,
        levels=[level for level in levels if level.task_queue_id not in counted],
    )


def definitions_of(task_queue_ids: Collection[int]) -> Mapping[int, QueueDefinition]:
    """Return the definitions of the existing ones of these task queues."""
    rows = _definitions(TaskQueue.objects.filter(pk__among=task_queue_ids))
    return {row.task_queue_id: row.definition for row in rows}


@contextmanager
def _one_view() -> Iterator[DatabaseView]:
    """Let all statements see the database at one moment, and yield that."""
    if connection.in_atomic_block:
        # The caller's transaction, whose uncommitted rows must be visible; its isolation stays as it is.
        yield _view()
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield _view()


def _view() -> DatabaseView:
    begun_at = monotonic()
    ((seen, database_time),) = _rows("SELECT pg_current_snapshot()::text, wms_now()")
    return DatabaseView(begun_at=begun_at, database_time=database_time, seen=seen)


def _rows(statement: str, **parameters: str | bool) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def _packed(statement: str, row: "np.dtype[np.void]", only: Ids | None) -> NDArray[np.void]:
    """Return the rows of a statement that packs them into one value; of some task queues, or of all (None)."""
    if only is not None and not len(only):
        return np.empty(0, dtype=row)
    ((packed,),) = _rows(statement, all=only is None, queues=array_of([] if only is None else only.tolist()))
    return np.frombuffer(packed or b"", dtype=row)


def _changed_rows(seen: str) -> dict[str, Ids]:
    """Return the changed task queues by the snapshot in which their jobs were counted; "": not counted."""
    return {
        counted_in: np.frombuffer(packed, dtype=">i8").astype(np.int64)
        for counted_in, packed in _rows(_CHANGED_ROWS, seen=seen)
    }


def _standing(only: Ids | None) -> QueueCounts:
    rows = _packed(_STANDING, _STANDING_ROW, only)
    return QueueCounts(
        task_queue_id=rows["task_queue_id"].astype(np.int64),
        priority=rows["priority"].astype(np.float64),
        trusted=rows["trusted"].astype(np.bool_),
        jobs=rows["jobs"]["number"].astype(np.int64),
        counted=np.zeros(len(rows), dtype=np.bool_),
    )


def _recounted(standing: QueueCounts, *, new: Ids, counted_in: Mapping[str, Ids]) -> QueueCounts:
    """Return the numbers with their counts brought up to date."""
    is_new = np.isin(standing.task_queue_id, new)
    jobs = np.where(is_new[:, None], _count(standing.task_queue_id, only=new), standing.jobs)
    counted = is_new.copy()
    for snapshot, queues in counted_in.items():
        if not snapshot:
            continue
        rows = np.flatnonzero(np.isin(standing.task_queue_id, queues) & ~is_new)
        counted[rows] = True
        row_of = dict(zip(standing.task_queue_id[rows].tolist(), rows.tolist(), strict=True))
        # Changes since the count for the priorities are added to it.
        for level in _changed_levels(snapshot) if row_of else ():
            if (row := row_of.get(level.task_queue_id)) is not None:
                jobs[row, level.user_priority] += level.jobs
    return replace(standing, jobs=np.maximum(jobs, 0), counted=counted)


def _count(task_queue_id: Ids, *, only: Ids | None) -> NDArray[np.int64]:
    """Return the waiting jobs by task queue (in the order of the ascending ids) and user priority."""
    jobs = np.zeros((len(task_queue_id), USER_PRIORITIES), dtype=np.int64)
    rows = _packed(_COUNT, _COUNT_ROW, only)
    rows = rows[np.isin(rows["task_queue_id"], task_queue_id)]
    jobs[np.searchsorted(task_queue_id, rows["task_queue_id"]), rows["user_priority"]] = rows["jobs"]
    return jobs


def _changed_levels(seen: str) -> list[LevelChange]:
    return [
        LevelChange(task_queue_id=task_queue_id, user_priority=user_priority, jobs=int(jobs), came=came)
        for task_queue_id, user_priority, jobs, came in _rows(_CHANGED_LEVELS, seen=seen)
    ]


def _definitions(queues: TaskQueueQuerySet) -> list[QueueRow]:
    rows = queues.with_trust().order_by("pk").values_list("pk", "trusted", *_DEFINITION)
    return [
        QueueRow(
            task_queue_id=task_queue_id,
            definition=QueueDefinition.of_columns(dict(zip(_DEFINITION, values, strict=True))),
            trusted=trusted,
        )
        for task_queue_id, trusted, *values in rows
    ]
