"""Comparison of task queues with the queues that serve their VO: the causes against their jobs at each queue."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from matching.domain.headline import Cause, Ground
from matching.queries.explain.condition_texts import WaitingRequirements, detail, throttled_in_words
from matching.queries.explain.held_back import HeldBackState
from matching.queries.restrictions import closings_now
from resources.models import Queue
from resources.queries.places import queues_at_hand, why_closed
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.queries import room_of
from taskqueues.services.offers import offer_to, platforms_on_nodes, read_for
from taskqueues.services.restrictions import Closings
from wms.accounts.models import VO
from wms.kernel.memo import Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlace:
    """One configured queue, the offer of a pilot there, and the conditions that fail."""

    queue: Queue
    offer: ResourceOffer
    failed: tuple[str, ...]
    #: Platforms that its nodes reported recently; empty: none did.
    nodes: tuple[str, ...] = ()
    #: All causes against the job there: a ban, the throttle, limits, names of failed conditions, and that the queue
    #: gave the job back.
    causes: tuple[Cause, ...]
    #: Conditions that refuse the job there for as long as neither it nor the configuration changes.
    unmet: tuple[str, ...] = ()

    @property
    def is_only_closed(self) -> bool:
        """Return whether the job would fit but for causes that end by themselves."""
        return bool(self.causes) and not self.unmet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCondition:
    """The result of one condition, by itself, for the queues that serve the job's VO."""

    name: str
    passed_queues: int
    failed_queues: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The room that a limit or a throttle leaves for the jobs of a task queue."""

    #: The scope of the limit, or the site of the throttle.
    name: str
    words: str
    is_full: bool


class Comparison:
    """The facts of one VO with which task queues are compared, read once for all of them.

    Up to twenty thousand queues: they are memoised, and the data for all are read at once.
    """

    def __init__(
        self,
        task_queues: Sequence[TaskQueue],
        *,
        vo: VO,
        nodes: Mapping[int, tuple[str, ...]],
        memo: Memo,
        now: datetime,
        closings: bool = True,
    ) -> None:
        """Read the facts.

        Args:
            task_queues: of *vo*, with owners and groups.
            vo: whose queues are compared.
            nodes: as ``reported_platforms``; empty if none of the task queues requires a platform.
            memo: cache of the index for lookups of the configuration.
            now: time for which bans are evaluated.
            closings: whether throttles and limits are read.
        """
        self._vo, self._nodes, self._now = vo, nodes, now
        pools = {pool for task_queue in task_queues for pool in task_queue.submit_pools}
        self._lookups = read_for(pools, vo=vo, memo=memo)
        self.queues: Sequence[Queue] = self._lookups.get(queues_at_hand, vo)
        self._closings: Closings | None = None
        if closings:
            sites = {queue.ce.site_id: queue.ce.site for queue in self.queues}
            self._closings = closings_now(sites.values(), now=now, task_queues=task_queues)

    def places(
        self, task_queue: TaskQueue, judge: Judge, *, waits: HeldBackState, sites: Collection[str] | None = None
    ) -> Iterator[ComparedPlace]:
        """Yield every queue that serves the VO, of these sites or all, compared with one task queue."""
        for queue in self.queues:
            if sites is None or queue.ce.site.name in sites:
                place = self._place(task_queue, judge, queue)
                yield replace(place, causes=(*place.causes, *waits.causes_at(queue.pk)))

    def rooms(self, task_queue: TaskQueue, places: Iterable[ComparedPlace]) -> Iterator[Room]:
        """Yield the limits and throttles that apply to the jobs of a task queue at these places, with their room.

        Limits on other jobs are left out: their texts name other users.
        """
        if self._closings is None:
            return
        at = {(place.queue.ce.site_id, place.queue.ce_id): place.queue.ce for place in places}
        for standing in self._closings.limits:
            applies = any(standing.scope.holds_at(site_id=site_id, ce_id=ce_id) for site_id, ce_id in at)
            if applies and standing.scope.is_on(task_queue):
                yield Room(**room_of(standing, now=self._closings.now))
        for site in {ce.site_id: ce.site for ce in at.values()}.values():
            throttle = self._closings.throttle_at(site.pk)
            if throttle is not None:
                left = throttle.room_left
                words = throttle.why_closed or ("open" if left is None else f"{left} more matches until it closes")
                yield Room(name=f"throttle of {site}", words=words, is_full=not throttle.accepting)

    def _closed(self, offer: ResourceOffer, queue: Queue, task_queue: TaskQueue) -> ResourceOffer:
        """Return the offer with the throttles and limits that hold back the jobs of the task queue.

        Limits on other jobs are left out: they do not affect these jobs, and their texts name other users.
        """
        if self._closings is None:
            return offer
        applied = self._closings.applied(offer, site_id=queue.ce.site_id, ce_id=queue.ce_id)
        if not applied.full_limits:
            return applied
        return replace(applied, full_limits=tuple(scope for scope in applied.full_limits if scope.is_on(task_queue)))

    def _place(self, task_queue: TaskQueue, judge: Judge, queue: Queue) -> ComparedPlace:
        offer = self._closed(
            offer_to(task_queue, queue, vo=self._vo, now=self._now, lookups=self._lookups), queue, task_queue
        )
        nodes = self._nodes.get(queue.pk, ()) if task_queue.platforms else ()
        if nodes:
            # The offer of a pilot there, as far as the nodes are known (ADR 28).
            offer = replace(offer, platforms=platforms_on_nodes(queue, nodes, lookups=self._lookups))
        failed = judge.failed(offer)
        if not failed:
            return ComparedPlace(queue=queue, offer=offer, failed=(), nodes=nodes, causes=())
        why = "" if offer.accepting else why_closed(queue, vo=self._vo, now=self._now, lookups=self._lookups)
        causes = [Cause(Ground.BAN, why)] if why else []
        causes += _closing_causes(offer, failed)
        unmet = judge.unmet(offer)
        causes += [Cause(Ground.CONDITION, name) for name in unmet]
        return ComparedPlace(queue=queue, offer=offer, failed=failed, nodes=nodes, causes=tuple(causes), unmet=unmet)


def _closing_causes(offer: ResourceOffer, failed: Collection[str]) -> list[Cause]:
    """Return the throttle and limits that hold back the jobs in an offer for which these conditions fail."""
    closing = [Cause(Ground.THROTTLE, throttled_in_words(offer))] if "throttle" in failed else []
    return [*closing, *(Cause(Ground.LIMIT, scope.words) for scope in offer.full_limits)]


def conditions_at(
    judge: Judge, needs: WaitingRequirements, places: Sequence[ComparedPlace]
) -> list[ExplainedCondition]:
    """Return the results of all conditions, each by itself, at these places that were compared by *judge*."""
    failed = Counter(name for place in places for name in place.failed)
    closed = sum(not place.offer.accepting for place in places)
    return [
        ExplainedCondition(
            name=name,
            passed_queues=len(places) - failed[name],
            failed_queues=failed[name],
            detail=detail(name, needs, judge.kinds(name))
            + (f"; {closed} of {len(places)} queues accept no jobs at present" if name == "site" and closed else ""),
        )
        for name in CONDITIONS
    ]
