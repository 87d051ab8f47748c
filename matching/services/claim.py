"""One waiting job for one offer: the draw, and taking what was drawn while others do the same (TQM, DESIGN §3.5)."""

from collections.abc import Iterator
from random import Random

from django.db.models import Count

from matching.domain.draw import draw_user_priority
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import QueuedJob, TaskQueue
from wms.kernel.db import transaction_required

#: TQM: "selects the first ten" of the level and takes one of them at random, so that pilots seldom collide.
OLDEST = 10


@transaction_required
def claim(offer: ResourceOffer, *, chance: Random, may_wait: bool) -> QueuedJob | None:
    """Take one job that fits *offer* out of its queue, or return None when nothing fits.

    The returned row no longer exists in the database; no other transaction can have taken the same.

    Args:
        chance: of the level and among the ten oldest; the queue is drawn by the database.
        may_wait: whether to wait for another claim that holds the only jobs left; not while this transaction holds
            a job already, for the other might be waiting for that.
    """
    for task_queue_id in _draws(offer):
        while levels := _levels(task_queue_id):
            user_priority = draw_user_priority(levels, chance=chance.random())
            job = _take_one_of_oldest(task_queue_id, user_priority, chance=chance)
            if job is None and may_wait:
                job = _take_oldest(task_queue_id, user_priority)
            if job is not None:
                return job
            if not may_wait:
                break
    return None


def _draws(offer: ResourceOffer) -> Iterator[int]:
    """Yield fitting task queues, each drawn from those not yet seen: highest CPU segment, then by priority."""
    seen: list[int] = []
    # Each draw is a new statement, so that a queue that came a moment ago is seen, and an emptied one is not.
    while (
        drawn := TaskQueue.objects.with_jobs()
        .fitting(offer)
        .exclude(pk__in=seen)
        .in_lottery_order()
        .values_list("pk", flat=True)
        .first()
    ) is not None:
        seen.append(drawn)
        yield drawn


def _levels(task_queue_id: int) -> dict[int, int]:
    rows = QueuedJob.objects.filter(task_queue=task_queue_id).values_list("user_priority")
    return dict(rows.annotate(jobs=Count("pk")).order_by("user_priority"))


def _take_one_of_oldest(task_queue_id: int, user_priority: int, *, chance: Random) -> QueuedJob | None:
    # Read without locks: to lock all ten would make others come back empty-handed.
    level = QueuedJob.objects.of_level(task_queue_id=task_queue_id, user_priority=user_priority)
    oldest = list(level.values_list("pk", flat=True)[:OLDEST])
    chance.shuffle(oldest)
    for job_id in oldest:
        # Of the level still: since it was read, a job may have moved to another queue, which nobody compared.
        job = level.filter(pk=job_id).select_for_update(skip_locked=True).first()
        if job is not None:
            return _taken(job)
    return None


def _take_oldest(task_queue_id: int, user_priority: int) -> QueuedJob | None:
    """Take the oldest job that is free; when all are held by others, wait for the first of these to end."""
    level = QueuedJob.objects.of_level(task_queue_id=task_queue_id, user_priority=user_priority)
    job = level.select_for_update(skip_locked=True).first() or level.select_for_update().first()
    return None if job is None else _taken(job)


def _taken(job: QueuedJob) -> QueuedJob:
    # By key, not job.delete(): that would forget the id.
    QueuedJob.objects.filter(pk=job.pk).delete()
    return job
