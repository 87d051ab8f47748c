"""What a slot offers, resolved against the configuration: the one way from a queue to what jobs are compared with.

Pilots and people who ask what if name their slots (``matching.services.offers``); directors take them from the queue.
"""

from dataclasses import dataclass
from datetime import datetime

from resources.models import Queue
from resources.queries import Place, accepting, compatible_platforms
from taskqueues.domain.offer import ResourceOffer
from taskqueues.queries import pools_of_queue
from wms.accounts.models import VO
from wms.kernel.memo import FORGETFUL, Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot as it is told of; None: the queue's word, else the VO's, else not compared.

    ``site`` and ``ce`` are names for a place that has no row here, such as a CE that stands at several sites.
    """

    setup: str | None = None
    site: str | None = None
    ce: str | None = None
    platforms: tuple[str, ...] | None = None
    cpu_time_s: int
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    processors: int = 1
    memory_mb: int = 0
    wall_time_s: int | None = None
    gpus: int = 0
    disk_mb: int = 0
    container: bool = False
    job_types: tuple[str, ...] | None = None
    submit_pools: tuple[str, ...] | None = None


def resolve(slot: Slot, *, vo: VO, place: Place, now: datetime, known: Remembered = FORGETFUL) -> ResourceOffer:
    """Return the offer that a generic pilot of *vo* makes with *slot* at *place*.

    Args:
        slot: what is told; a queue's platforms win over those told, and its pools can only be narrowed.
        vo: whose jobs the pilot runs.
        place: the rows of the place, as far as they are known.
        now: when bans are looked at.
        known: what of the configuration need not be asked again.
    """
    # Of an unnamed place nothing is closed.
    closed = place.innermost is not None and not accepting(place.innermost, vo=vo, now=now, known=known)
    return ResourceOffer(
        vo_id=vo.pk,
        setup=vo.setup if slot.setup is None else slot.setup,
        cpu_time_s=slot.cpu_time_s,
        site=slot.site if place.site is None else place.site.name,
        accepting=not closed,
        ce=slot.ce if place.ce is None else place.ce.name,
        platforms=_platforms(slot.platforms, place.queue, known=known),
        submit_pools=_submit_pools(slot.submit_pools, place.queue, vo=vo, known=known),
        tags=tuple(sorted(set(slot.tags))),
        required_tags=tuple(sorted(set(slot.required_tags))),
        job_types=_job_types(slot.job_types, place.queue),
        processors=slot.processors,
        memory_mb=slot.memory_mb,
        wall_time_s=_wall_time_s(slot.wall_time_s, place.queue),
        gpus=slot.gpus,
        disk_mb=slot.disk_mb,
        container=slot.container,
    )


def offer_of_queue(queue: Queue, *, vo: VO, now: datetime, known: Remembered = FORGETFUL) -> ResourceOffer:
    """Return what a generic pilot of *vo* offers that has just started in a slot of *queue* (with its CE and site).

    Platforms that only the node knows are not compared. *known*: as for ``resolve``.
    """
    slot = Slot(
        cpu_time_s=queue.cpu_time_s,
        tags=tuple(queue.tags),
        required_tags=tuple(queue.required_tags),
        processors=queue.processors,
        memory_mb=queue.memory_mb,
        gpus=queue.gpus,
        disk_mb=queue.disk_mb,
        container=queue.container,
    )
    return resolve(slot, vo=vo, place=Place(site=queue.ce.site, ce=queue.ce, queue=queue), now=now, known=known)


def _platforms(told: tuple[str, ...] | None, queue: Queue | None, *, known: Remembered) -> tuple[str, ...] | None:
    nodes = tuple(queue.platforms) if queue is not None and queue.platforms else told
    return None if nodes is None else known.ask(compatible_platforms, nodes)


def _submit_pools(
    told: tuple[str, ...] | None, queue: Queue | None, *, vo: VO, known: Remembered
) -> tuple[str, ...] | None:
    """Return the pools of the queue as the server knows them (DESIGN §3.4); what an offer names can only narrow."""
    if queue is None:
        return told
    pools = known.ask(pools_of_queue, queue, vo)
    return pools if told is None else tuple(sorted(frozenset(pools) & frozenset(told)))


def _wall_time_s(told: int | None, queue: Queue | None) -> int | None:
    return queue.wall_time_s if told is None and queue is not None else told


def _job_types(told: tuple[str, ...] | None, queue: Queue | None) -> tuple[str, ...]:
    # An empty list says as little as none: a dedicated queue stays dedicated.
    return told or (() if queue is None else tuple(queue.job_types))
