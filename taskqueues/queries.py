"""Named reads on what waits."""

from collections.abc import Collection, Mapping

from django.db.models import Count

from resources.models import Queue
from taskqueues.models import QueuedJob, SubmitPool
from wms.accounts.models import VO


def jobs_in(task_queue_ids: Collection[int]) -> Mapping[int, int]:
    """Return how many jobs wait in each of the queues; an empty one is missing."""
    rows = QueuedJob.objects.filter(task_queue__in=task_queue_ids).values_list("task_queue_id")
    return dict(rows.annotate(jobs=Count("pk")).order_by("task_queue_id"))


def pools_of_queue(queue: Queue, vo: VO) -> tuple[str, ...]:
    """Return the ids, sorted, of the VO's submit pools that *queue* belongs to (RFC7, getSubmitPoolsForQueue)."""
    return tuple(SubmitPool.objects.filter(vo=vo, queues=queue).order_by("pk").values_list("pk", flat=True))
