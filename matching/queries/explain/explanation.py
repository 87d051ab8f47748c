"""Explanation of a waiting job: the result of each condition of the match at each queue."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nsmallest
from typing import Any

import numpy as np

from matching.domain.headline import Cause, Ground, HeadlineKind, headline
from matching.queries.explain.checking import quota_that_holds_back, why_checking
from matching.queries.explain.condition_texts import (
    RequiredOf,
    WaitingRequirements,
    causes_of_job,
    detail,
    reason,
    throttled_in_words,
)
from matching.queries.explain.held_back import HeldBackState, held_back_of
from matching.queries.explain.pilots import PilotsThere, none_of_the_middleware, pilots_there
from matching.queries.explain.summary import Findings, QueueRank, not_waiting, waiting
from matching.queries.restrictions import closings_now
from resources.models import Queue
from resources.queries.eligible_queues import supply_of
from resources.queries.known_names import requirement_kinds, requirement_units
from resources.queries.nodes import reported_platforms
from resources.queries.places import queues_at_hand, resolve_place, why_closed
from taskqueues.domain.columns import Columns
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import CLOSINGS, Judge
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_to, platforms_on_nodes, read_for
from wms.accounts.models import VO
from wms.accounts.queries import is_member
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import description_doubts
from wms.kernel.memo import CachedLookups, Memo
from wms.kernel.names import listed

#: Queues in the answer; those that fit, then those with the fewest failed conditions, come first.
MOST_QUEUES = 200
#: Causes that pass within minutes: no warning is given for them.
_PASSING = frozenset({Ground.THROTTLE, Ground.LIMIT, Ground.DELAY})
#: Headlines with which no pilot gets the job until somebody changes something.
_WARNED_OF = frozenset({HeadlineKind.NEVER_DRAWN, HeadlineKind.NO_QUEUES, HeadlineKind.MISMATCH, HeadlineKind.CLOSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCondition:
    """The result of one condition, by itself, for the queues that serve the job's VO."""

    name: str
    passed_queues: int
    failed_queues: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedQueue:
    """The result for one queue: a pilot there may get the job, or all reasons why not."""

    site: str
    ce: str
    queue: str
    fits: bool
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a job; one that is not waiting has neither conditions nor queues."""

    job: Job
    summary: str
    task_queue_id: int | None = None
    standing: QueueRank | None = None
    conditions: Sequence[ExplainedCondition] = ()
    queues: Sequence[ExplainedQueue] = ()
    #: Limits and throttles that hold it back where it would fit otherwise.
    limits: Sequence[str] = ()
    #: The warnings that a submission of the job would get now (ADR 32).
    warnings: Sequence[str] = ()


def explain(job: Job, *, task_queue_id: int | None, now: datetime, site: str | None = None) -> Explanation:
    """Return why *job*, which has its related rows loaded, waits.

    Args:
        job: of any status.
        task_queue_id: task queue of the job; None: none.
        now: time for which bans are evaluated.
        site: limits the queues in the answer to this site; conditions and summary are about all sites.

    Raises:
        UnknownPlaceError: no such site serves the job's VO.
    """
    if site is not None:
        resolve_place(job.vo, site=site)
    if job.status == JobStatus.CHECKING:
        return Explanation(job=job, summary=why_checking(job), limits=quota_that_holds_back(job))
    if job.status != JobStatus.WAITING or task_queue_id is None:
        return Explanation(job=job, summary=not_waiting(job))
    task_queue = TaskQueue.objects.select_related("owner", "group__vo", "vo").filter(pk=task_queue_id).first()
    snapshot = index.renewed()
    row = snapshot.row_of.get(task_queue_id)
    if task_queue is None or row is None:  # its last job has been taken in the meantime
        return Explanation(job=job, summary=not_waiting(job))
    judge = Judge(snapshot.columns.take(np.array([row])))
    # Untrusted in the index: suspended, or not a member, or both.
    is_of_member = bool(snapshot.columns.trusted[row]) or is_member(task_queue.owner, task_queue.group)
    needs = WaitingRequirements(
        task_queue=task_queue,
        description=job.description,
        is_of_member=is_of_member,
        requirements=_required(job.vo, job.description["requirements"]),
    )
    waits = held_back_of(job.pk, now=snapshot.now())
    nodes = reported_platforms(now=now) if task_queue.platforms else {}
    places = list(_places(judge, needs, waits, nodes=nodes, memo=snapshot.memo, now=now))
    holding = {
        cause.words: None
        for place in places
        if place.is_only_closed
        for cause in place.causes
        if cause.ground in {Ground.THROTTLE, Ground.LIMIT}
    }
    conditions = _conditions(judge, needs, places)
    of_job = causes_of_job(needs)
    may_be_drawn = not of_job and any(not place.failed or place.is_only_closed for place in places)
    standing = _standing(snapshot, row, may_be_drawn=may_be_drawn)
    pilots = _pilots(task_queue, places, now=now)
    findings = Findings(
        queues=len(places),
        headline=headline(
            of_job=(*of_job, *waits.delays),
            queues=[place.causes for place in places],
            no_pilots=pilots.no_pilots,
        ),
        details={condition.name: condition.detail for condition in conditions},
        standing=standing,
        pilots=pilots,
        goes_elsewhere=waits.goes_elsewhere,
    )
    return Explanation(
        job=job,
        summary=waiting(needs, findings),
        task_queue_id=task_queue.pk,
        standing=standing,
        conditions=conditions,
        queues=_nearest([place for place in places if site in {None, place.offer.site}], needs),
        limits=tuple(holding),
        warnings=tuple(filter(None, [*description_doubts(job), _doubt(needs, places, conditions)])),
    )


def doubts_about_queue(
    task_queue: TaskQueue,
    *,
    columns: Columns,
    description: Mapping[str, Any],
    nodes: Mapping[int, tuple[str, ...]],
    memo: Memo,
    now: datetime,
    is_of_member: bool = True,
) -> str:
    """Return why no pilot gets the jobs of a task queue, or is sent for them, in the words of ``explain``.

    Empty if a pilot may.

    Args:
        task_queue: with its owner and group.
        columns: of this task queue alone; the index reads a new one only after its transaction is committed.
        description: of one of the jobs.
        nodes: as ``reported_platforms``; empty for a task queue that requires no platform.
        memo: cache of the index for lookups of the configuration.
        now: time for which bans are evaluated.
        is_of_member: whether the owner is a member of the group.
    """
    judge = Judge(columns)
    requirements = _required(task_queue.group.vo, description["requirements"])
    needs = WaitingRequirements(
        task_queue=task_queue, description=description, is_of_member=is_of_member, requirements=requirements
    )
    of_job = causes_of_job(needs)
    places: list[_Place] = []
    # First the queues of the sites that it names, of which mostly one fits, and only if none does all of the VO.
    for sites in (task_queue.sites, None) if task_queue.sites else (None,):
        places = []
        for place in _places(
            judge, needs, HeldBackState(), nodes=nodes, memo=memo, now=now, closings=False, sites=sites
        ):
            if not place.causes and not of_job and place.queue.ce.is_one_of(task_queue.grid_middlewares):
                # The remaining queues, perhaps thousands, cannot change that.
                return ""
            places.append(place)
    return _doubt(needs, places, _conditions(judge, needs, places))


def _doubt(needs: WaitingRequirements, places: Sequence["_Place"], conditions: Sequence[ExplainedCondition]) -> str:
    """Return why no pilot gets the job, or is sent for it, in the present configuration.

    Causes that pass within minutes are left out.
    """
    lasting = [[cause for cause in place.causes if cause.ground not in _PASSING] for place in places]
    findings = Findings(
        queues=len(places),
        headline=headline(of_job=causes_of_job(needs), queues=lasting),
        details={condition.name: condition.detail for condition in conditions},
        standing=QueueRank(rank=None, share=0.0, longer=0),
        pilots=PilotsThere(),
    )
    if findings.headline.verdict in _WARNED_OF:
        return waiting(needs, findings)
    fitting = [place.queue for place, causes in zip(places, lasting, strict=True) if not causes]
    return none_of_the_middleware(needs.task_queue, fitting)


def _required(vo: VO, stated: Mapping[str, object]) -> RequiredOf | None:
    """Return the job's resource requirements and how the queues meet them now; None: it has none."""
    if not stated:
        return None
    return RequiredOf(stated=stated, kinds=requirement_kinds(vo), units=requirement_units(vo), supply=supply_of(vo))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One configured queue, the offer of a pilot there, and the conditions that fail."""

    queue: Queue
    offer: ResourceOffer
    failed: tuple[str, ...]
    #: Platforms that its nodes reported recently; empty: none did.
    nodes: tuple[str, ...] = ()
    #: All causes against the job there: a ban, the throttle, limits, names of failed conditions, and that the queue
    #: gave the job back.
    causes: tuple[Cause, ...]

    @property
    def is_only_closed(self) -> bool:
        """Return whether the job would fit but for causes that end by themselves."""
        return bool(self.causes) and all(cause.ground is not Ground.CONDITION for cause in self.causes)


def _places(
    judge: Judge,
    needs: WaitingRequirements,
    waits: HeldBackState,
    *,
    nodes: Mapping[int, tuple[str, ...]],
    memo: Memo,
    now: datetime,
    closings: bool = True,
    sites: Collection[str] | None = None,
) -> Iterator[_Place]:
    """Yield every queue that serves the VO, of these sites or all; without *closings*, no throttles and limits."""
    task_queue = needs.task_queue
    vo = task_queue.group.vo
    # Up to twenty thousand queues: they are memoised, and the data for all are read at once.
    lookups = read_for(task_queue.submit_pools, vo=vo, memo=memo)
    queues = lookups.get(queues_at_hand, vo)
    closed = _Closed(task_queue, queues, now=now) if closings else None
    for queue in queues:
        if sites is not None and queue.ce.site.name not in sites:
            continue
        of_queue = nodes.get(queue.pk, ())
        place = _place(judge, task_queue, queue, nodes=of_queue, closed=closed, lookups=lookups, now=now)
        yield replace(place, causes=(*place.causes, *waits.causes_at(queue.pk)))


class _Closed:
    """The throttles and limits that hold back the jobs of one task queue, at each place.

    Limits on other jobs are left out: they do not affect these jobs, and their texts name other users.
    """

    def __init__(self, task_queue: TaskQueue, queues: Sequence[Queue], *, now: datetime) -> None:
        self._task_queue = task_queue
        sites = {queue.ce.site_id: queue.ce.site for queue in queues}
        self._closings = closings_now(sites.values(), now=now, task_queues=[task_queue])

    def applied(self, offer: ResourceOffer, queue: Queue) -> ResourceOffer:
        applied = self._closings.applied(offer, site_id=queue.ce.site_id, ce_id=queue.ce_id)
        if not applied.full_limits:
            return applied
        return replace(
            applied, full_limits=tuple(scope for scope in applied.full_limits if scope.is_on(self._task_queue))
        )


def _closing_causes(offer: ResourceOffer, failed: Collection[str]) -> list[Cause]:
    """Return the throttle and limits that hold back the jobs in an offer for which these conditions fail."""
    closing = [Cause(Ground.THROTTLE, throttled_in_words(offer))] if "throttle" in failed else []
    return [*closing, *(Cause(Ground.LIMIT, scope.words) for scope in offer.full_limits)]


def _place(
    judge: Judge,
    task_queue: TaskQueue,
    queue: Queue,
    *,
    nodes: tuple[str, ...],
    closed: _Closed | None,
    lookups: CachedLookups,
    now: datetime,
) -> _Place:
    offer = offer_to(task_queue, queue, vo=task_queue.group.vo, now=now, lookups=lookups)
    if closed is not None:
        offer = closed.applied(offer, queue)
    if nodes:
        # The offer of a pilot there, as far as the nodes are known (ADR 28).
        offer = replace(offer, platforms=platforms_on_nodes(queue, nodes, lookups=lookups))
    failed = judge.failed(offer)
    if not failed:
        return _Place(queue=queue, offer=offer, failed=(), nodes=nodes, causes=())
    why = "" if offer.accepting else why_closed(queue, vo=task_queue.group.vo, now=now, lookups=lookups)
    causes = [Cause(Ground.BAN, why)] if why else []
    # A queue that takes no jobs fails the condition on sites, even if its site is the required one.
    closings = CLOSINGS if "site" in failed and judge.would_be_welcome(offer) else CLOSINGS - {"site"}
    causes += _closing_causes(offer, failed)
    causes += [Cause(Ground.CONDITION, name) for name in failed if name not in closings]
    return _Place(queue=queue, offer=offer, failed=failed, nodes=nodes, causes=tuple(causes))


def _conditions(judge: Judge, needs: WaitingRequirements, places: Sequence[_Place]) -> list[ExplainedCondition]:
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


def _standing(snapshot: Snapshot, row: int, *, may_be_drawn: bool) -> QueueRank:
    columns, priorities = snapshot.columns, snapshot.priority
    competing = (columns.vo_id == columns.vo_id[row]) & snapshot.has_jobs
    of_segment = float(priorities[competing & (columns.cpu_time_s == columns.cpu_time_s[row])].sum())
    priority = float(priorities[row])
    longer = competing & (columns.cpu_time_s > columns.cpu_time_s[row]) & (priorities > 0)
    return QueueRank(
        rank=1 + int(np.count_nonzero(competing & (priorities > priority))) if may_be_drawn else None,
        share=priority / of_segment if may_be_drawn and of_segment else 0.0,
        longer=int(np.count_nonzero(longer)),
    )


def _pilots(task_queue: TaskQueue, places: Sequence[_Place], *, now: datetime) -> PilotsThere:
    fitting = [place.queue for place in places if not place.causes]
    return pilots_there(task_queue, fitting, now=now) if fitting else PilotsThere()


def _nearest(places: Sequence[_Place], needs: WaitingRequirements) -> list[ExplainedQueue]:
    """Return the queues that fit, then those with the fewest failed conditions, each in their order."""
    return [
        ExplainedQueue(
            site=place.queue.ce.site.name,
            ce=place.queue.ce.name,
            queue=place.queue.name,
            fits=not place.causes,
            reasons=_reasons(place, needs),
        )
        for place in nsmallest(MOST_QUEUES, places, key=lambda place: max(len(place.failed), bool(place.causes)))
    ]


def _reasons(place: _Place, needs: WaitingRequirements) -> list[str]:
    return [
        _refusal(cause.words, place, needs) if cause.ground is Ground.CONDITION else cause.words
        for cause in place.causes
    ]


def _refusal(name: str, place: _Place, needs: WaitingRequirements) -> str:
    """Return why one condition refuses the queue."""
    words = reason(name, needs, place.offer, queue_id=place.queue.pk)
    if name != "platform" or not place.nodes:
        return words
    configured = f" (configured: {listed(place.queue.platforms)})" if place.queue.platforms else ""
    return f"{words}; nodes of this queue{configured} report {listed(place.nodes)}"
