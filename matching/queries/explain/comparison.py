"""Comparison of jobs with the queues that serve their VO: the causes against them at each queue.

Explanations, warnings of submissions and rehearsals all ask it which queues would take jobs; they differ in the jobs,
and in whether throttles and limits are read.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from matching.domain.condition_words import WORDS, would_not_end_in_words
from matching.domain.facts import WaitFact, WaitReason, fact
from matching.domain.findings import ConditionCount, RequiredOf, Room, WaitingRequirements
from matching.domain.headline import Cause, Ground
from matching.queries.restrictions import closings_now
from resources.models import Queue
from resources.queries.eligible_queues import supply_of
from resources.queries.known_names import requirement_kinds, requirement_units
from resources.queries.nodes import reported_platforms
from resources.queries.places import place_in_words, queues_at_hand, serves, why_closed
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.queries import LEAST_SHARE, pools_of_queue, room_of
from taskqueues.services.offers import offer_to, platforms_on_nodes, read_for
from taskqueues.services.restrictions import Closings
from wms.accounts.models import VO, Group, User
from wms.kernel.memo import CachedLookups, Memo, PreloadedLookups

#: Stands for the submit pool of requirements that are not registered yet.
UNREGISTERED_POOL: Final = "the pool of these requirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackState:
    """The delay and the avoided places of a queued job at present; empty if it may be matched anywhere."""

    #: The delay until which no pilot gets it; empty: none.
    delays: tuple[Cause, ...] = ()
    #: The avoided places and the time; None: none.
    goes_elsewhere: WaitFact | None = None
    #: Queues that it avoids entirely; if it avoids only a host, the queue still fits.
    queue_ids: frozenset[int] = frozenset()
    until: datetime | None = None

    def causes_at(self, queue_id: int) -> tuple[Cause, ...]:
        """Return why the job goes to other queues before this one; empty: it does not."""
        if queue_id not in self.queue_ids:
            return ()
        return (Cause(Ground.DELAY, fact(WaitReason.AVOIDED, until=self.until)),)


NOT_HELD_BACK: Final = HeldBackState()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlace:
    """One configured queue, the offer of a pilot there, and the conditions that fail."""

    queue: Queue
    offer: ResourceOffer
    failed: tuple[str, ...] = ()
    #: Platforms that its nodes reported recently; empty: none did.
    nodes: tuple[str, ...] = ()
    #: All causes against the job there: a ban, the throttle, limits, names of failed conditions, and that the queue
    #: gave the job back.
    causes: tuple[Cause, ...] = ()
    #: Conditions that refuse the job there for as long as neither it nor the configuration changes.
    unmet: tuple[str, ...] = ()

    @property
    def is_only_closed(self) -> bool:
        """Return whether the job would fit but for causes that end by themselves."""
        return bool(self.causes) and not self.unmet


class Comparison:
    """The facts of one VO with which jobs are compared, read once for all of them, when needed.

    Up to twenty thousand queues: they are memoised, and the data for all are read at once.
    """

    def __init__(
        self,
        vo: VO,
        *,
        submit_pools: Collection[str],
        memo: Memo,
        now: datetime,
        task_queues: Sequence[TaskQueue] = (),
    ) -> None:
        """Prepare the comparison.

        Args:
            vo: whose queues are compared.
            submit_pools: registered ones, of any of the jobs.
            memo: cache of the index for lookups of the configuration.
            now: time for which bans are evaluated.
            task_queues: for whose jobs throttles and limits are read, with owners and groups; empty: they are left out.
        """
        self.vo, self._submit_pools, self.memo, self.now = vo, submit_pools, memo, now
        self._task_queues = task_queues
        #: {what offers depend on: {queue: offer}}.
        self._offers: dict[Hashable, dict[int, ResourceOffer]] = {}

    @cached_property
    def queues(self) -> Sequence[Queue]:
        """Return the queues at the sites that serve the VO."""
        return CachedLookups(self.memo).get(queues_at_hand, self.vo)

    @cached_property
    def _lookups(self) -> PreloadedLookups:
        return read_for(self._submit_pools, vo=self.vo, memo=self.memo)

    @cached_property
    def _nodes(self) -> Mapping[int, tuple[str, ...]]:
        return reported_platforms(now=self.now)

    @cached_property
    def _closings(self) -> Closings | None:
        if not self._task_queues:
            return None
        sites = {queue.ce.site_id: queue.ce.site for queue in self.queues}
        return closings_now(sites.values(), now=self.now, task_queues=self._task_queues)

    @cached_property
    def _resources(self) -> RequiredOf:
        kinds, units = requirement_kinds(self.vo), requirement_units(self.vo)
        return RequiredOf(stated={}, kinds=kinds, units=units, supply=supply_of(self.vo))

    def needs(
        self,
        definition: QueueDefinition,
        description: Mapping[str, Any],
        *,
        owner: User,
        group: Group,
        is_member: bool = True,
        task_queue_id: int = 0,
    ) -> WaitingRequirements:
        """Return the requirements of jobs.

        Args:
            definition: of their task queue.
            description: of one of them.
            owner: their owner.
            group: their group, of this VO.
            is_member: whether the owner is a member of the group.
            task_queue_id: 0: it is not registered yet.
        """
        stated = description["requirements"]
        return WaitingRequirements(
            task_queue_id=task_queue_id,
            definition=definition,
            description=description,
            owner=str(owner),
            group=str(group),
            vo=str(self.vo),
            is_active=owner.is_active,
            is_member=is_member,
            has_share=group.priority >= LEAST_SHARE,
            resources=replace(self._resources, stated=stated) if stated else None,
        )

    def needs_of(
        self, task_queue: TaskQueue, description: Mapping[str, object], *, is_member: bool
    ) -> WaitingRequirements:
        """Return the requirements of the jobs of a task queue, with owner and group, of which one has *description*."""
        return self.needs(
            QueueDefinition.of_columns({each.name: getattr(task_queue, each.name) for each in fields(QueueDefinition)}),
            description,
            owner=task_queue.owner,
            group=task_queue.group,
            is_member=is_member,
            task_queue_id=task_queue.pk,
        )

    def places(
        self,
        needs: WaitingRequirements,
        judge: Judge,
        *,
        waits: HeldBackState = NOT_HELD_BACK,
        sites: Collection[str] | None = None,
    ) -> Iterator[ComparedPlace]:
        """Yield every queue that serves the VO, of these sites or all, compared with jobs by their *judge*."""
        definition, lookups, unregistered = needs.definition, self._lookups, ""
        if UNREGISTERED_POOL in definition.submit_pools and needs.resources is not None:
            unregistered = str(needs.resources.stated)
            lookups = self._with_pool(frozenset(needs.resources.supply.eligible(needs.resources.required)))
        pilots = (definition.owner_id, definition.group_id, definition.pilot_types)
        key = (*pilots, unregistered, bool(definition.software), bool(definition.platforms))
        offers = self._offers.setdefault(key, {})
        for queue in self.queues:
            if sites is None or queue.ce.site.name in sites:
                offer = offers.get(queue.pk)
                if offer is None:
                    offer = offers[queue.pk] = self._offer(definition, queue, lookups)
                yield self._place(needs, judge, queue, offer, waits=waits, lookups=lookups)

    def _with_pool(self, eligible: frozenset[int]) -> PreloadedLookups:
        """Return lookups as those of ``read_for``, in which the queues that meet the requirements are in one pool."""
        return PreloadedLookups(
            {
                serves: lambda _site, _vo: True,
                pools_of_queue: lambda queue, _vo: (UNREGISTERED_POOL,) if queue.pk in eligible else (),
            },
            self.memo,
        )

    def _offer(self, definition: QueueDefinition, queue: Queue, lookups: CachedLookups) -> ResourceOffer:
        offer = offer_to(definition, queue, vo=self.vo, now=self.now, lookups=lookups)
        # The offer of a pilot there, as far as the nodes are known (ADR 28).
        nodes = self._nodes.get(queue.pk, ()) if definition.platforms else ()
        return replace(offer, platforms=platforms_on_nodes(queue, nodes, lookups=lookups)) if nodes else offer

    def _place(
        self,
        needs: WaitingRequirements,
        judge: Judge,
        queue: Queue,
        offer: ResourceOffer,
        *,
        waits: HeldBackState,
        lookups: CachedLookups,
    ) -> ComparedPlace:
        if self._closings is not None:
            offer = _closed(self._closings, offer, queue, needs.definition)
        failed, held_back = judge.failed(offer), waits.causes_at(queue.pk)
        nodes = self._nodes.get(queue.pk, ()) if needs.definition.platforms else ()
        if not failed:
            return ComparedPlace(queue=queue, offer=offer, nodes=nodes, causes=held_back)
        why = "" if offer.accepting else why_closed(queue, vo=self.vo, now=self.now, lookups=lookups)
        causes = [Cause(Ground.BAN, why)] if why else []
        if "downtime" in failed and offer.downtime is not None:
            causes.append(Cause(Ground.BAN, would_not_end_in_words(offer.downtime)))
        if "throttle" in failed:
            causes.append(Cause(Ground.THROTTLE, WORDS["throttle"].offers(offer)))
        causes += [
            Cause(Ground.CLOSING_LIMIT if scope.is_closing else Ground.LIMIT, scope.words)
            for scope in offer.full_limits
        ]
        unmet = judge.unmet(offer)
        causes += [*(Cause(Ground.CONDITION, name) for name in unmet), *held_back]
        return ComparedPlace(queue=queue, offer=offer, failed=failed, nodes=nodes, causes=tuple(causes), unmet=unmet)

    def rooms(self, needs: WaitingRequirements, places: Iterable[ComparedPlace]) -> Iterator[Room]:
        """Yield the limits and throttles that apply to the jobs of a task queue at these places, with their room.

        Limits on other jobs are left out: their texts name other users.
        """
        if self._closings is None:
            return
        at = {(place.queue.ce.site_id, place.queue.ce_id): place.queue.ce for place in places}
        for standing in self._closings.limits:
            applies = any(standing.scope.holds_at(site_id=site_id, ce_id=ce_id) for site_id, ce_id in at)
            if applies and standing.scope.is_on(needs.definition):
                yield Room(**room_of(standing, now=self._closings.now))
        for site in {ce.site_id: ce.site for ce in at.values()}.values():
            throttle = self._closings.throttle_at(site.pk)
            if throttle is not None:
                left = throttle.room_left
                words = throttle.why_closed or ("open" if left is None else f"{left} more matches until it closes")
                yield Room(name=f"throttle of {site}", words=words, is_full=not throttle.accepting)


def comparisons(
    task_queues: Iterable[TaskQueue], *, memo: Memo, now: datetime, with_closings: bool
) -> Mapping[int, Comparison]:
    """Return, by VO, a comparison for its task queues, which have owners, groups and VOs loaded.

    Args:
        task_queues: of any VOs.
        memo, now: as of a comparison.
        with_closings: whether throttles and limits are read.
    """
    of_vo: defaultdict[VO, list[TaskQueue]] = defaultdict(list)
    for task_queue in task_queues:
        of_vo[task_queue.group.vo].append(task_queue)
    return {
        vo.pk: Comparison(
            vo,
            submit_pools={pool for task_queue in theirs for pool in task_queue.submit_pools},
            memo=memo,
            now=now,
            task_queues=theirs if with_closings else (),
        )
        for vo, theirs in of_vo.items()
    }


def _closed(closings: Closings, offer: ResourceOffer, queue: Queue, definition: QueueDefinition) -> ResourceOffer:
    """Return the offer with the throttles and limits that hold back the jobs of the task queue.

    Limits on other jobs are left out: they do not affect these jobs, and their texts name other users.
    """
    applied = closings.applied(offer, site_id=queue.ce.site_id, ce_id=queue.ce_id)
    if not applied.full_limits:
        return applied
    return replace(applied, full_limits=tuple(scope for scope in applied.full_limits if scope.is_on(definition)))


def judge_of(needs: WaitingRequirements) -> Judge:
    """Return the conditions of the match for these jobs."""
    trusted = needs.is_active and needs.is_member
    row = QueueRow(task_queue_id=needs.task_queue_id, definition=needs.definition, trusted=trusted)
    return Judge(Columns.of([row]))


def causes_of_job(needs: WaitingRequirements) -> tuple[Cause, ...]:
    """Return why no queue can get the job; empty: some may."""
    facts = (
        (needs.is_active, Ground.OWNER, WaitReason.SUSPENDED),
        (needs.is_member, Ground.OWNER, WaitReason.LEFT_THE_GROUP),
        (needs.has_share, Ground.PRIORITY, WaitReason.NO_SHARE),
    )
    names = {"owner": needs.owner, "group": needs.group, "vo": needs.vo}
    return tuple(Cause(ground, fact(why, **names)) for is_so, ground, why in facts if not is_so)


def counts_at(judge: Judge, places: Sequence[ComparedPlace]) -> list[ConditionCount]:
    """Return the results of all conditions, each by itself, at these places that were compared by *judge*."""
    failed = Counter(name for place in places for name in place.failed)
    closed = sum(not place.offer.accepting for place in places)
    return [
        ConditionCount(
            name=name,
            passed_queues=len(places) - failed[name],
            failed_queues=failed[name],
            offers=judge.kinds(name),
            closed_queues=closed if name == "site" else 0,
        )
        for name in CONDITIONS
    ]


# ---- given back by pilots (ADR 33) -----------------------------------------------------------------------------------


def held_back_of(row: QueuedJob | None, *, now: datetime) -> HeldBackState:
    """Return the delay and the avoided places of a job; None: it has just left its task queue.

    Args:
        row: of the queued job.
        now: by the database's clock.
    """
    if row is None or row.not_before is None:
        return NOT_HELD_BACK
    delays: tuple[Cause, ...] = ()
    if row.not_before > now:
        delays = (Cause(Ground.DELAY, fact(WaitReason.DELAYED, until=row.not_before)),)
    if row.avoided_until is None or row.avoided_until <= now:
        return HeldBackState(delays=delays)
    avoided, until = row.avoided_queue_ids or [], row.avoided_until
    places = tuple(place_in_words(queue_id, host=row.avoided_host) for queue_id in avoided)
    return HeldBackState(
        delays=delays,
        goes_elsewhere=fact(WaitReason.GOES_ELSEWHERE, until=until, places=places),
        queue_ids=frozenset(avoided) if row.avoided_host is None else frozenset(),
        until=until,
    )
