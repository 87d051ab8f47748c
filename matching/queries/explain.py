"""Why a job waits: what each condition of the match says of its task queue at every configured queue (DESIGN §3.5)."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nsmallest
from operator import attrgetter

import numpy as np

from matching.queries.checking import quota_that_holds_back, why_checking
from matching.queries.closings import closings_now
from matching.queries.pilots_there import PilotsThere, pilots_there
from matching.queries.summaries import Findings, Standing, not_waiting, waiting
from matching.queries.wording import Asked, RequiredOf, detail, reason, throttled_in_words
from resources.domain.words import PilotType
from resources.models import Queue
from resources.queries import (
    queues_at_hand,
    requirement_kinds,
    requirement_units,
    resolve_place,
    serves,
    supply_of,
    why_closed,
)
from taskqueues.domain.columns import Columns
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.queries import pools_of_queue, queues_of_pools
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.memo import Memo, ReadBeforehand, Remembered

#: So many queues are told of; those that fit, and then those that nearly do, come first.
MOST_QUEUES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCondition:
    """What one condition, by itself, says of the queues that serve the job's VO."""

    name: str
    passed_queues: int
    failed_queues: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedQueue:
    """Whether a pilot at one queue may be given the job, and if not, every reason why."""

    site: str
    ce: str
    queue: str
    fits: bool
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job waits, or what it does instead; then there are neither conditions nor queues."""

    job: Job
    summary: str
    task_queue_id: int | None = None
    standing: Standing | None = None
    conditions: Sequence[ExplainedCondition] = ()
    queues: Sequence[ExplainedQueue] = ()
    #: Limits and throttles that hold it back somewhere.
    limits: Sequence[str] = ()


def explain(job: Job, *, task_queue_id: int | None, now: datetime, site: str | None = None) -> Explanation:
    """Return why *job*, which has its surroundings at hand, waits.

    Args:
        job: of any status.
        task_queue_id: in which it waits; None: in none.
        now: when bans are looked at.
        site: whose queues are told of; the conditions and the summary are about those of all sites.

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
    if task_queue is None or row is None:  # its last job has been taken since
        return Explanation(job=job, summary=not_waiting(job))
    judge = _Judge(snapshot.columns.take(np.array([row])))
    asked = Asked(task_queue=task_queue, description=job.description, requirements=_required(job))
    places = _places(judge, asked, memo=snapshot.memo, now=now)
    holding = {why: None for place in places for why in place.held_back}
    conditions = _conditions(judge, asked, places)
    standing = _standing(snapshot, row)
    return Explanation(
        job=job,
        summary=waiting(asked, _findings(places, conditions, standing, pilots=_pilots(task_queue, places, now=now))),
        task_queue_id=task_queue.pk,
        standing=standing,
        conditions=conditions,
        queues=_nearest([place for place in places if site in {None, place.offer.site}], judge, asked),
        limits=tuple(holding),
    )


def _required(job: Job) -> RequiredOf | None:
    """Return what the job requires of resources, beside what the queues say at this moment; None: nothing."""
    stated = job.description["requirements"]
    if not stated:
        return None
    vo = job.vo
    return RequiredOf(stated=stated, kinds=requirement_kinds(vo), units=requirement_units(vo), supply=supply_of(vo))


class _Judge:
    """What the conditions of the match say of one task queue; each is asked once about offers alike to it.

    Twenty thousand queues are judged: those of a place have that in common, and many slots are the same elsewhere.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        #: For each part of the conditions: {what it looks at: which of them fail}.
        self._failed: Sequence[dict[Hashable, frozenset[str]]] = [{} for _ in _PARTS]
        #: By condition: {what it looks at: (its verdict, an offer of the kind)}.
        self._known: Mapping[str, dict[Hashable, tuple[bool, ResourceOffer]]] = {name: {} for name in CONDITIONS}

    def accepts(self, name: str, offer: ResourceOffer) -> bool:
        """Return whether one condition accepts the task queue for the offer."""
        known, looked_at = self._known[name], _LOOK[name](offer)
        if looked_at not in known:
            mask = CONDITIONS[name].accepts(self._columns, offer)
            known[looked_at] = (mask is None or bool(mask.all()), offer)
        return known[looked_at][0]

    def failed(self, offer: ResourceOffer) -> tuple[str, ...]:
        """Return the conditions, in their order, that do not accept the task queue for the offer."""
        failed: frozenset[str] = frozenset()
        for known, (names, look) in zip(self._failed, _PARTS, strict=True):
            looked_at = look(offer)
            of_part = known.get(looked_at)
            if of_part is None:
                of_part = known[looked_at] = frozenset(name for name in names if not self.accepts(name, offer))
            failed |= of_part
        return tuple(name for name in CONDITIONS if name in failed) if failed else ()

    def kinds(self, name: str) -> list[ResourceOffer]:
        """Return one offer of each kind that the condition was asked about."""
        return [offer for _, offer in self._known[name].values()]

    def would_be_welcome(self, offer: ResourceOffer) -> bool:
        """Return whether the site would be right if it took jobs."""
        return self.accepts("site", replace(offer, accepting=True))


def _look(names: Sequence[str]) -> Callable[[ResourceOffer], Hashable]:
    return attrgetter(*names) if names else lambda _offer: None


_LOOK: Mapping[str, Callable[[ResourceOffer], Hashable]] = {
    name: _look(condition.looks_at) for name, condition in CONDITIONS.items()
}
_OF_PLACE = frozenset({"site", "accepting", "ce", "throttled", "refused", "full_limits"})
#: What opens by itself, sooner or later.
_CLOSINGS = frozenset({"site", "throttle", "limit"})


def _part(*, of_place: bool) -> tuple[Sequence[str], Callable[[ResourceOffer], Hashable]]:
    """Return the conditions that look at nothing but the place, or the others, and all that they look at."""
    names = [name for name, each in CONDITIONS.items() if (set(each.looks_at) <= _OF_PLACE) is of_place]
    return names, _look(sorted({field for name in names for field in CONDITIONS[name].looks_at}))


_PARTS = (_part(of_place=True), _part(of_place=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One configured queue, what a pilot there offers, and the conditions that fail."""

    queue: Queue
    offer: ResourceOffer
    failed: tuple[str, ...]
    #: Why it gives jobs to nobody at present; empty: it does.
    why_closed: str
    #: Which throttle and limits hold the jobs back there.
    held_back: tuple[str, ...]
    #: Nothing but that is wrong with it.
    is_only_closed: bool


def _places(judge: _Judge, asked: Asked, *, memo: Memo, now: datetime) -> list[_Place]:
    task_queue = asked.task_queue
    vo = task_queue.group.vo
    pools = queues_of_pools(task_queue.submit_pools, vo) if task_queue.submit_pools else {}
    # Twenty thousand queues are asked about: they are remembered, and what is asked of each is read for all at once.
    known = ReadBeforehand(
        {serves: lambda _site, _vo: True, pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ())}, memo
    )
    queues = known.ask(queues_at_hand, vo)
    closed = _Closed(task_queue, queues, now=now)
    return [_place(judge, task_queue, queue, closed=closed, known=known, now=now) for queue in queues]


class _Closed:
    """Which throttles and limits hold the jobs of one task queue back, at each place."""

    def __init__(self, task_queue: TaskQueue, queues: Sequence[Queue], *, now: datetime) -> None:
        self._task_queue = task_queue
        sites = {queue.ce.site_id: queue.ce.site for queue in queues}
        self._closings = closings_now(sites.values(), now=now, task_queues=[task_queue])

    def applied(self, offer: ResourceOffer, queue: Queue) -> ResourceOffer:
        return self._closings.applied(offer, site_id=queue.ce.site_id, ce_id=queue.ce_id)

    def why(self, offer: ResourceOffer, failed: Collection[str]) -> tuple[str, ...]:
        """Return what holds the jobs back in an offer for which these conditions fail."""
        found = []
        if "throttle" in failed:
            found.append(throttled_in_words(offer))
        if "limit" in failed:
            found += [scope.words for scope in offer.full_limits if scope.is_on(self._task_queue)]
        return tuple(found)


def _place(
    judge: _Judge, task_queue: TaskQueue, queue: Queue, *, closed: _Closed, known: Remembered, now: datetime
) -> _Place:
    offer = closed.applied(offer_of_queue(queue, vo=task_queue.group.vo, now=now, known=known), queue)
    if _pilot_type(task_queue, queue) is PilotType.PRIVATE:
        offer = replace(offer, group_id=task_queue.group_id, owner_id=task_queue.owner_id)
    failed = judge.failed(offer)
    is_only_closed = (
        bool(failed)
        and _CLOSINGS.issuperset(failed)
        and ("site" not in failed or (not offer.accepting and judge.would_be_welcome(offer)))
    )
    why = "" if offer.accepting else why_closed(queue, vo=task_queue.group.vo, now=now, known=known)
    return _Place(
        queue=queue,
        offer=offer,
        failed=failed,
        why_closed=why,
        held_back=closed.why(offer, failed) if "throttle" in failed or "limit" in failed else (),
        is_only_closed=is_only_closed,
    )


def _pilot_type(task_queue: TaskQueue, queue: Queue) -> PilotType:
    """Return what kind of pilot would come to *queue* for the jobs of *task_queue*: generic if it may be (PIL §3.1)."""
    taken = queue.ce.pilot_types or list(PilotType)
    wanted = [kind for kind in taken if kind in (task_queue.pilot_types or taken)]
    return PilotType.GENERIC if PilotType.GENERIC in (wanted or taken) else PilotType.PRIVATE


def _conditions(judge: _Judge, asked: Asked, places: Sequence[_Place]) -> list[ExplainedCondition]:
    failed = Counter(name for place in places for name in place.failed)
    closed = sum(not place.offer.accepting for place in places)
    return [
        ExplainedCondition(
            name=name,
            passed_queues=len(places) - failed[name],
            failed_queues=failed[name],
            detail=detail(name, asked, judge.kinds(name))
            + (f"; {closed} of {len(places)} queues take no jobs at present" if name == "site" and closed else ""),
        )
        for name in CONDITIONS
    ]


def _standing(snapshot: Snapshot, row: int) -> Standing:
    columns, priorities = snapshot.columns, snapshot.priority
    competing = (columns.vo_id == columns.vo_id[row]) & snapshot.jobs.any(axis=1)
    of_segment = float(priorities[competing & (columns.cpu_time_s == columns.cpu_time_s[row])].sum())
    priority = float(priorities[row])
    longer = competing & (columns.cpu_time_s > columns.cpu_time_s[row]) & (priorities > 0)
    return Standing(
        rank=1 + int(np.count_nonzero(competing & (priorities > priority))),
        priority=priority,
        share=priority / of_segment if of_segment else 0.0,
        longer=int(np.count_nonzero(longer)),
    )


def _pilots(task_queue: TaskQueue, places: Sequence[_Place], *, now: datetime) -> PilotsThere:
    fitting = [place.queue for place in places if not place.failed]
    return pilots_there(task_queue, fitting, now=now) if fitting else PilotsThere()


def _findings(
    places: Sequence[_Place], conditions: Sequence[ExplainedCondition], standing: Standing, *, pilots: PilotsThere
) -> Findings:
    closed = [place.why_closed or place.held_back[0] for place in places if place.is_only_closed]
    return Findings(
        queues=len(places),
        fitting=sum(not place.failed for place in places),
        closed=closed,
        never_met={each.name: each.detail for each in conditions if not each.passed_queues},
        standing=standing,
        pilots=pilots,
    )


def _nearest(places: Sequence[_Place], judge: _Judge, asked: Asked) -> list[ExplainedQueue]:
    """Return those that fit, then those with the fewest conditions against them, each in their order."""
    return [
        ExplainedQueue(
            site=place.queue.ce.site.name,
            ce=place.queue.ce.name,
            queue=place.queue.name,
            fits=not place.failed,
            reasons=_reasons(place, judge, asked),
        )
        for place in nsmallest(MOST_QUEUES, places, key=lambda place: len(place.failed))
    ]


def _reasons(place: _Place, judge: _Judge, asked: Asked) -> list[str]:
    # A queue that takes no jobs fails the condition on sites, be its site the right one or not.
    closed = {"throttle", "limit"} | ({"site"} if judge.would_be_welcome(place.offer) else set())
    against = [name for name in place.failed if name not in closed]
    return [
        *filter(None, [place.why_closed]),
        *place.held_back,
        *(reason(name, asked, place.offer, queue_id=place.queue.pk) for name in against),
    ]
