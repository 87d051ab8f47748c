"""What the nodes of queues report of their platforms, compared with what the queues say (ADR 28)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from resources.models import Queue, ReportedPlatform
from resources.queries.known_names import compatible_platforms
from wms.kernel.names import listed

#: Older reports say nothing of the nodes that a queue has today.
REPORT_HOLDS_FOR: Final = timedelta(days=1)


def reported_platforms(*, now: datetime) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: what its nodes reported lately, sorted}; a queue of which nothing is known is missing."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    rows = ReportedPlatform.objects.filter(seen_at__gt=now - REPORT_HOLDS_FOR).order_by("queue", "platform")
    for queue_id, platform in rows.values_list("queue_id", "platform"):
        found[queue_id].append(platform)
    return {queue_id: tuple(platforms) for queue_id, platforms in found.items()}


def contradiction(queue: Queue, platform: str, *, has_containers: bool) -> str:
    """Return in one sentence that a node of this platform is none of the queue's; empty: it may be one.

    Args:
        queue: with its CE and site at hand.
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
    """Return what nodes of the queue reported, the latest first."""
    return list(ReportedPlatform.objects.filter(queue=queue).order_by("-seen_at", "platform"))
