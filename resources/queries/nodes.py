"""Platforms reported by nodes, compared with those of their queues (ADR 28)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from resources.models import Queue, ReportedPlatform
from resources.queries.known_names import compatible_platforms
from wms.kernel.names import listed

#: Validity of a report; older ones say nothing about the nodes that a queue has today.
REPORT_HOLDS_FOR: Final = timedelta(days=1)


def reported_platforms(*, now: datetime) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: platforms recently reported by its nodes, sorted}; queues without reports are missing."""
    by_queue: defaultdict[int, list[str]] = defaultdict(list)
    rows = ReportedPlatform.objects.filter(seen_at__gt=now - REPORT_HOLDS_FOR).order_by("queue", "platform")
    for queue_id, platform in rows.values_list("queue_id", "platform"):
        by_queue[queue_id].append(platform)
    return {queue_id: tuple(platforms) for queue_id, platforms in by_queue.items()}


def contradiction(queue: Queue, platform: str, *, has_containers: bool) -> str:
    """Return a sentence if a node of this platform cannot belong to the queue; else an empty string.

    Args:
        queue: loaded with its CE and site.
        platform: as the node reported it.
        has_containers: whether the node can run containers.
    """
    if not queue.platforms or not frozenset(queue.platforms).isdisjoint(compatible_platforms((platform,))):
        return ""
    if has_containers and queue.ce.site.containers_provide_platforms:
        return ""
    return (
        f"The node is {platform}, but the queue is configured for {listed(queue.platforms)}: correct the queue's "
        "platforms or the table of compatible platforms, or set containers_provide_platforms at the site if its "
        "containers provide them."
    )


def latest_reports(queue: Queue) -> Sequence[ReportedPlatform]:
    """Return the platforms reported by nodes of the queue, the latest first."""
    return list(ReportedPlatform.objects.filter(queue=queue).order_by("-seen_at", "platform"))
