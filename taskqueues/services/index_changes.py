"""The table of changes by which indexes follow the task queues (ADR 14)."""

from datetime import timedelta

from django.db.models.functions import Now

from taskqueues.models import TaskQueueChange
from taskqueues.services.index.shared import ANEW_AFTER_S

#: An index that has not read for half of it reads everything anew, so none misses what is removed.
KEPT = timedelta(seconds=2 * ANEW_AFTER_S)


def remove_old() -> int:
    """Remove the changes that every index has read; return the number.

    The change of a transaction that began long before it committed would be removed unread; none may be idle, or work,
    for so long.
    """
    removed, _ = TaskQueueChange.objects.filter(changed_at__lt=Now() - KEPT).delete()
    return removed
