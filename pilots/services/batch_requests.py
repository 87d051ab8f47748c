"""The batch request of one pilot, made from its task queue or batch queue; a backend translates it (PIL §2.3 (iii))."""

from dataclasses import replace

from pilots.backends.interface import BatchRequest
from resources.models import Queue
from taskqueues.models import TaskQueue
from wms.wire.amounts import DividedAmounts, amounts_of, divided_amounts_of

#: Wall-clock time requested per CPU time needed: payloads also wait for files, and some nodes are slower than the
#: reference.
WALL_FACTOR = 1.5
#: Seconds added for the pilot's own work before, between and after its payloads.
OVERHEAD_S = 900


def request_for_queue(queue: Queue) -> BatchRequest:
    """Return a request for a whole slot of the batch queue, which any job of the queue fits into."""
    return BatchRequest(
        queue=queue.name,
        **amounts_of(queue),
        platforms=tuple(queue.platforms),
        tags=tuple(queue.tags),
    )


def smallest_request_for(queue: Queue) -> BatchRequest:
    """Return the smallest request that ``request_for`` can make: one core of the batch queue's slot."""
    memory_mb = queue.memory_mb // max(1, queue.processors)
    return replace(request_for_queue(queue), **divided_amounts_of(DividedAmounts(memory_mb=memory_mb)), tags=())


def request_for(task_queue: TaskQueue, queue: Queue) -> BatchRequest:
    """Return a request for what the jobs of the task queue need, at most a whole slot: smaller slots start sooner."""
    needed_s = task_queue.wall_time_s or int(task_queue.cpu_time_s * WALL_FACTOR)
    wall_time_s = needed_s + OVERHEAD_S
    return BatchRequest(
        queue=queue.name,
        **{
            **divided_amounts_of(task_queue),
            "memory_mb": task_queue.memory_mb or queue.memory_mb // max(1, queue.processors) * task_queue.processors,
        },
        wall_time_s=wall_time_s if queue.wall_time_s is None else min(wall_time_s, queue.wall_time_s),
        platforms=tuple(platform for platform in task_queue.platforms if platform in queue.platforms)
        or tuple(queue.platforms),
        tags=tuple(task_queue.tags),
    )
