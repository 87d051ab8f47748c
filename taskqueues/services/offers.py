"""Offers, resolved against the configuration: the only way from a slot to the values that are compared with jobs.

Pilots and previews name their slots (``matching.services.offers``); directors take them from the queue.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from resources.domain.enums import PilotType
from resources.domain.software import PublishedSoftware
from resources.models import Queue
from resources.queries.eligible_queues import published_software
from resources.queries.known_names import compatible_platforms
from resources.queries.places import ResourcePlace, accepting, downtime_of, serves
from resources.queries.possible_queues import PossiblePlaces
from taskqueues.domain.offer import NO_JOB_TYPE, DowntimeAhead, ResourceOffer, SlotOffer
from taskqueues.queries import pools_of_all, pools_of_queue, queues_of_pools
from wms.accounts.models import VO
from wms.kernel.memo import UNCACHED, CachedLookups, Memo, PreloadedLookups
from wms.wire.amounts import divided_amounts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSlot(SlotOffer):
    """The description of a slot; None: as the queue states, else not compared.

    ``site`` and ``ce`` are names for a place that has no row here, such as a CE that several sites have.
    """

    setup: str | None = None
    site: str | None = None
    ce: str | None = None
    platforms: tuple[str, ...] | None = None
    job_types: tuple[str, ...] | None = None
    submit_pools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """The configured part of the offers of one place, or of all places where a pilot may be."""

    #: For each kind of queue, its platforms (empty: those of the node) and whether containers provide them.
    platforms: tuple[tuple[tuple[str, ...], bool], ...]
    #: Accepted by all; None: every type.
    job_types: tuple[str, ...] | None
    required_tags: frozenset[str]
    #: The shortest, in seconds; None: none is limited.
    wall_time_s: int | None


def resolve(
    slot: OfferedSlot,
    *,
    vo: VO,
    place: ResourcePlace,
    now: datetime,
    lookups: CachedLookups = UNCACHED,
    possible: PossiblePlaces | None = None,
    some_name_software: bool = True,
) -> ResourceOffer:
    """Return the offer of a generic pilot of *vo* with *slot* at *place*.

    Args:
        slot: the description; it can only narrow a queue's platforms and pools.
        vo, place: whose jobs the pilot runs, and the rows of its place, as far as they are known.
        now: time for which bans and downtimes are evaluated.
        lookups: memoised lookups of the configuration.
        possible: places of a pilot whose queue is unknown; None: nothing else of the place is compared.
        some_name_software: whether a task queue compared with the offer names software; else no software is read.
    """
    possible = possible if place.queue is None else None
    closed, terms, pools = _configured(place, possible, vo=vo, now=now, lookups=lookups)
    downtime = None if closed else _downtime(place, possible, now=now, lookups=lookups)
    platforms = _platforms(slot, terms, lookups=lookups)
    return ResourceOffer(
        vo_id=vo.pk,
        setup=slot.setup,
        cpu_time_s=slot.cpu_time_s,
        site=slot.site if place.site is None else place.site.name,
        possible_sites=possible.site_names if possible is not None and place.site is None else None,
        accepting=not closed,
        downtime=downtime,
        ce=slot.ce if place.ce is None else place.ce.name,
        possible_ces=possible.ce_names if possible is not None and place.ce is None else None,
        platforms=platforms[0] if len(platforms) == 1 else None,
        possible_platforms=tuple(platforms) if len(platforms) > 1 else None,
        submit_pools=_narrowed(pools, slot.submit_pools),
        lacking_software=_lacking(place, possible, vo=vo, lookups=lookups) if some_name_software else frozenset(),
        tags=tuple(sorted(set(slot.tags))),
        # A queue's own tags apply whatever the slot states: they reserve the queue for certain jobs.
        required_tags=tuple(sorted(terms.required_tags.union(slot.required_tags))),
        job_types=slot.job_types or _all_or(terms.job_types),
        **divided_amounts_of(slot),
        wall_time_s=terms.wall_time_s if slot.wall_time_s is None else slot.wall_time_s,
        container=slot.container,
    )


def _configured(
    place: ResourcePlace, possible: PossiblePlaces | None, *, vo: VO, now: datetime, lookups: CachedLookups
) -> tuple[bool, _Terms, tuple[str, ...] | None]:
    """Return whether a place is closed, its terms, and its submit pools; None: not compared."""
    closed = bool(vo.why_paused(now))
    if possible is not None:
        terms = lookups.get(_terms_of_all, possible)
        closed = closed or bool(possible.why_closed(now=now, lookups=lookups))
        return closed, terms, lookups.get(pools_of_all, possible, vo)
    if place.innermost is not None:
        closed = not accepting(place.innermost, vo=vo, now=now, lookups=lookups)
    if place.queue is None:
        return closed, _terms_of(()), None
    return closed, _terms_of((place.queue,)), lookups.get(pools_of_queue, place.queue, vo)


def _downtime(
    place: ResourcePlace, possible: PossiblePlaces | None, *, now: datetime, lookups: CachedLookups
) -> DowntimeAhead | None:
    """Return the next downtime of an open place, or of any possible one; None: none is planned."""
    if possible is not None:
        downtime = possible.next_downtime(now=now, lookups=lookups)
    elif place.innermost is not None:
        downtime = downtime_of(place.innermost, now=now, lookups=lookups)
    else:
        downtime = None
    if downtime is None:
        return None
    left_s = int((downtime.begins_at - now).total_seconds())
    return DowntimeAhead(
        begins_at=downtime.begins_at, words=downtime.ahead_in_words, wall_time_s=left_s, cpu_time_s=left_s
    )


def _platforms(slot: OfferedSlot, terms: _Terms, *, lookups: CachedLookups) -> Sequence[tuple[str, ...]]:
    """Return the platforms of jobs that run at each kind of queue, unless neither queue nor node state platforms."""
    runs = {
        lookups.get(_runs, configured, () if configured and contained and slot.container else slot.platforms)
        for configured, contained in terms.platforms
    }
    return sorted(platform for platform in runs if platform is not None)


def _lacking(
    place: ResourcePlace, possible: PossiblePlaces | None, *, vo: VO, lookups: CachedLookups
) -> frozenset[str]:
    """Return the software that other queues publish, but not this place; none if nothing of the place is known."""
    if place.queue is None and possible is None:
        return frozenset()
    published = lookups.get(published_software, vo)
    return published.lacking(_published_at(published, place, possible, lookups=lookups))


def published_at(
    place: ResourcePlace, possible: PossiblePlaces | None, *, vo: VO, lookups: CachedLookups = UNCACHED
) -> frozenset[str]:
    """Return the software published at a place; if the queue is unknown, by all *possible* queues (ADR 27)."""
    return _published_at(lookups.get(published_software, vo), place, possible, lookups=lookups)


def _published_at(
    published: PublishedSoftware, place: ResourcePlace, possible: PossiblePlaces | None, *, lookups: CachedLookups
) -> frozenset[str]:
    if place.queue is not None:
        return published.common_to((place.queue.pk,))
    return frozenset() if possible is None else lookups.get(_common_to_all, published, possible)


def _common_to_all(published: PublishedSoftware, possible: PossiblePlaces) -> frozenset[str]:
    return published.common_to([queue.pk for queue in possible.queues] if possible.all_are_queues else [])


def offer_of_queue(
    queue: Queue, *, vo: VO, now: datetime, lookups: CachedLookups = UNCACHED, some_name_software: bool = True
) -> ResourceOffer:
    """Return the offer of a generic pilot of *vo* that has just started in a slot of *queue* (with its CE and site).

    Platforms known only to the node are not compared, nor is a setup that the queue does not choose. *lookups* and
    *some_name_software*: as for ``resolve``.
    """
    slot = OfferedSlot(
        setup=queue.setup_for(vo),
        cpu_time_s=queue.cpu_time_s,
        tags=tuple(queue.tags),
        required_tags=tuple(queue.required_tags),
        **divided_amounts_of(queue),
        container=queue.container,
    )
    place = ResourcePlace(site=queue.ce.site, ce=queue.ce, queue=queue)
    return resolve(slot, vo=vo, place=place, now=now, lookups=lookups, some_name_software=some_name_software)


def _terms_of(queues: Collection[Queue], *, all_are_queues: bool = True) -> _Terms:
    """Return the terms that all of the queues, at all places where the pilot may be, allow."""
    types = [frozenset(queue.job_types) for queue in queues if queue.job_types]
    walls = [queue.wall_time_s for queue in queues if queue.wall_time_s is not None]
    platforms = {(tuple(queue.platforms), queue.ce.site.containers_provide_platforms) for queue in queues}
    return _Terms(
        platforms=tuple(sorted(platforms if queues and all_are_queues else {*platforms, ((), False)})),
        job_types=tuple(sorted(frozenset.intersection(*types))) if types else None,
        required_tags=frozenset(tag for queue in queues for tag in queue.required_tags),
        wall_time_s=min(walls, default=None),
    )


class Asking(Protocol):
    """The properties of a task queue, or of its definition, that decide which kind of pilot runs its jobs."""

    @property
    def owner_id(self) -> int:
        """The primary key of its owner."""

    @property
    def group_id(self) -> int:
        """The primary key of its group."""

    @property
    def pilot_types(self) -> Sequence[str]:
        """Kinds of pilots that may run its jobs; empty: any."""

    @property
    def software(self) -> Sequence[str]:
        """The software that its jobs need."""


def read_for(submit_pools: Collection[str], *, vo: VO, memo: Memo) -> PreloadedLookups:
    """Return the lookups that ``offer_to`` needs at each queue of ``queues_at_hand``, read for all at once.

    Args:
        submit_pools: of the task queue.
        vo: that the queues serve.
        memo: cache of the index for lookups of the configuration.
    """
    pools = queues_of_pools(list(submit_pools), vo) if submit_pools else {}
    return PreloadedLookups(
        {serves: lambda _site, _vo: True, pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ())}, memo
    )


def offer_to(
    asking: Asking, queue: Queue, *, vo: VO, now: datetime, lookups: CachedLookups = UNCACHED
) -> ResourceOffer:
    """Return the offer of a pilot at *queue* for the jobs of one task queue, generic if allowed (PIL §3.1).

    *vo*, *now* and *lookups* are those of ``offer_of_queue``.
    """
    offer = offer_of_queue(queue, vo=vo, now=now, lookups=lookups, some_name_software=bool(asking.software))
    taken = queue.ce.pilot_types or list(PilotType)
    allowed = [kind for kind in taken if kind in (asking.pilot_types or taken)]
    if PilotType.GENERIC in (allowed or taken):
        return offer
    return replace(offer, group_id=asking.group_id, owner_id=asking.owner_id)


def _terms_of_all(places: PossiblePlaces) -> _Terms:
    return _terms_of(places.queues, all_are_queues=places.all_are_queues)


def platforms_on_nodes(queue: Queue, nodes: Collection[str], *, lookups: CachedLookups = UNCACHED) -> tuple[str, ...]:
    """Return, sorted, the platforms of jobs that run on some of the nodes of *queue*, as reported by the nodes."""
    configured = tuple(queue.platforms)
    if queue.container and queue.ce.site.containers_provide_platforms and configured:
        return lookups.get(compatible_platforms, configured)
    of_each = [lookups.get(_runs, configured, (node,)) for node in nodes]
    return tuple(sorted({platform for platforms in of_each for platform in platforms or ()}))


def _runs(configured: tuple[str, ...], node: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the platforms of jobs that run there; None: unknown.

    Args:
        configured: of the queue; empty: not configured.
        node: detected by the node; empty, or None: not reported.
    """
    if not configured:
        return None if node is None else compatible_platforms(node)
    runs = compatible_platforms(configured)
    return tuple(sorted(frozenset(runs).intersection(compatible_platforms(node)))) if node else runs


def _narrowed(pools: tuple[str, ...] | None, named: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the queue's pools; those named in an offer can only narrow them."""
    if pools is None or named is None:
        return named if pools is None else pools
    return tuple(sorted(frozenset(pools) & frozenset(named)))


def _all_or(job_types: tuple[str, ...] | None) -> tuple[str, ...]:
    # An empty list in an offer is the same as none: a dedicated queue stays dedicated.
    return () if job_types is None else job_types or (NO_JOB_TYPE,)
