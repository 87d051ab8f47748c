"""Preview of an offer: the dry run of a match (TQM)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Exists, OuterRef

from matching.queries.restrictions import closings_now
from resources.queries.places import ResourcePlace
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.queries import jobs_in
from taskqueues.services.index.shared import index
from wms.accounts.models import VO


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewQueue:
    """A task queue that fits, and the probability that the offer gets a job of it."""

    task_queue: TaskQueue
    jobs: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Every task queue that fits an offer, and the number left after each condition."""

    task_queues: Sequence[PreviewQueue]
    #: {condition: task queues left after it and all before it}, in the order of the conditions.
    left: dict[str, int]


def preview(offer: ResourceOffer, *, place: ResourcePlace) -> Preview:
    """Return the task queues that fit *offer* at *place* now, with their probabilities; nothing is claimed."""
    snapshot = index.renewed()
    # The index may still contain task queues whose last job has just been taken.
    task_queue_id = snapshot.columns.task_queue_id
    waiting = np.isin(task_queue_id, list(TaskQueue.objects.with_jobs().values_list("pk", flat=True)))
    fits = waiting & snapshot.masks.accepting(offer)
    site_id, ce_id, queue_id = place.ids
    free = QueuedJob.objects.filter(task_queue=OuterRef("pk")).free_at(queue_id, now=snapshot.now())
    rows = TaskQueue.objects.filter(pk__in=task_queue_id[fits].tolist()).annotate(has_free=Exists(free))
    fitting = list(rows.select_related("owner", "group", "vo").order_by("-cpu_time_s", "-priority", "pk"))
    closings = closings_now(filter(None, [place.its_site]), now=snapshot.now(), task_queues=fitting)
    offer = closings.applied(offer, site_id=site_id, ce_id=ce_id)
    fits = waiting & snapshot.masks.accepting(offer)
    fitting_ids = frozenset(task_queue_id[fits].tolist())
    fitting = [queue for queue in fitting if queue.pk in fitting_ids]
    jobs = jobs_in([queue.pk for queue in fitting])
    any_segment_fraction = VO.objects.get(pk=offer.vo_id).any_segment_fraction
    chance_of = _chances(fitting, any_segment_fraction=any_segment_fraction)
    return Preview(
        left=snapshot.masks.numbers_left(offer, among=waiting),
        task_queues=[
            PreviewQueue(
                task_queue=queue,
                jobs=jobs.get(queue.pk, 0),
                chance=chance_of[queue.pk],
            )
            for queue in fitting
        ],
    )


def _chances(fitting: Sequence[TaskQueue], *, any_segment_fraction: float) -> dict[int, float]:
    """Return the probability of each task queue to be drawn: among the highest CPU segment or, in that fraction, all.

    Task queues whose jobs are all held back at the place have probability 0.
    """
    drawn = [queue for queue in fitting if queue.priority > 0 and vars(queue)["has_free"]]
    highest_s = max((queue.cpu_time_s for queue in drawn), default=0)
    highest = [queue for queue in drawn if queue.cpu_time_s == highest_s]
    chance_of = dict.fromkeys((queue.pk for queue in fitting), 0.0)
    for part, queues in ((1 - any_segment_fraction, highest), (any_segment_fraction, drawn)):
        total = sum(queue.priority for queue in queues)
        for queue in queues:
            chance_of[queue.pk] += part * queue.priority / total
    return chance_of
