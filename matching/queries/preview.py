"""What an offer would get: the dry run of a match (TQM)."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from taskqueues.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.queries import jobs_in


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewQueue:
    """A task queue that fits, and the probability that the offer gets a job of it."""

    task_queue: TaskQueue
    jobs: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Every task queue that fits an offer, and how many were left after each condition."""

    task_queues: Sequence[PreviewQueue]
    #: {condition: queues left after it and all before it}, in DESIGN §3.5's order.
    left: dict[str, int]


def preview(offer: ResourceOffer) -> Preview:
    """Return what *offer*, made now and alone, would get; nothing is claimed."""
    with_jobs = TaskQueue.objects.with_jobs()
    so_far = Q()
    steps = {name: (so_far := so_far & condition(offer)) for name, condition in CONDITIONS.items()}
    # NB: the prefix, for some conditions are named as columns.
    left = with_jobs.aggregate(**{f"left_{name}": Count("pk", filter=step) for name, step in steps.items()})
    fitting = list(with_jobs.fitting(offer).select_related("owner", "group").order_by("-cpu_time_s", "-priority", "pk"))
    jobs = jobs_in([queue.pk for queue in fitting])
    drawn = [queue for queue in fitting if queue.priority > 0]
    highest = max((queue.cpu_time_s for queue in drawn), default=0)
    total = sum(queue.priority for queue in drawn if queue.cpu_time_s == highest)
    return Preview(
        left={name: left[f"left_{name}"] for name in steps},
        task_queues=[
            PreviewQueue(
                task_queue=queue,
                jobs=jobs.get(queue.pk, 0),
                chance=queue.priority / total if queue.cpu_time_s == highest and total > 0 else 0.0,
            )
            for queue in fitting
        ],
    )
