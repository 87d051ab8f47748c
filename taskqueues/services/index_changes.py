"""The table of changes by which indexes, and open pages, follow the task queues (ADR 14)."""

from datetime import timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import Func, Q
from django.db.models.functions import Now

from taskqueues.models import TaskQueueChange, XidField
from taskqueues.models.changes import CONFIGURATION
from taskqueues.services.index.shared import ANEW_AFTER_S

#: An index that has not read for half of it reads everything anew, so none misses what is removed.
KEPT = timedelta(seconds=2 * ANEW_AFTER_S)
# Uses index: task_queue_change_xid
_CHANGES = """
SELECT DISTINCT xid::text::bigint, task_queue_id = %(configuration)s
  FROM taskqueues_taskqueuechange
 WHERE xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(xid, %(seen)s::pg_snapshot)
   AND pg_visible_in_snapshot(xid, %(until)s::pg_snapshot)
   AND user_priority IS NULL
"""


class _NextXid(Func):
    """The number of the first transaction that had not begun when the statement did."""

    template = "pg_snapshot_xmax(pg_current_snapshot())"
    arity = 0
    output_field = XidField()


class IndexChange(NamedTuple):
    """A transaction has changed task queues or the configuration."""

    transaction: int
    #: Sites, computing elements, queues, VOs, groups or limits; otherwise definitions or priorities of task queues.
    is_of_configuration: bool


def changes_between(seen: str, until: str) -> list[IndexChange]:
    """Return the changes, but for numbers of jobs, that are visible in *until* but not in *seen*; both snapshots."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, {"configuration": CONFIGURATION, "seen": seen, "until": until})
        return [IndexChange(*row) for row in cursor.fetchall()]


def remove_old() -> int:
    """Remove the changes that every index has read, and those of a restored database's former server; return how many.

    The change of a transaction that began long before it committed would be removed unread; none may be idle, or work,
    for so long. A number that this server's transactions have not reached would be newer than each search, and no claim
    would give a job.
    """
    is_read = Q(changed_at__lt=Now() - KEPT)
    removed, _ = TaskQueueChange.objects.filter(is_read | Q(xid__gte=_NextXid())).delete()
    return removed
