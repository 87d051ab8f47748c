"""The queues that described jobs fit, before they are submitted: the conditions of the match, site by site."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from matching.queries.explain.condition_texts import RequiredOf, WaitingRequirements, causes_of_job, detail
from matching.queries.explain.doubts import RequirementsOf
from resources.domain.requirements import canonical
from resources.models import Queue
from resources.queries.nodes import reported_platforms
from resources.queries.places import queues_at_hand, serves
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.queries import pools_of_queue
from taskqueues.services.offers import offer_to, platforms_on_nodes, read_for
from wms.accounts.models import Group, User
from wms.kernel.memo import MAX_ENTRIES, CachedLookups, Memo, PreloadedLookups
from wms.wire.amounts import AMOUNT

#: Stands for the submit pool of the requirements, which is registered only when jobs are submitted.
_POOL: Final = "the pool of these requirements"
#: Condition on the computing element by which directors choose where to send pilots; the match ignores it.
MIDDLEWARE: Final = "grid_middlewares"
#: Condition of queues that take no jobs at present.
CLOSED: Final = "closed"
#: Conditions in the answer, those that exclude most queues first.
MOST_CONDITIONS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """One condition that excludes queues."""

    #: Name of the condition of the match, MIDDLEWARE, or CLOSED.
    condition: str
    queues: int
    #: Sites of which every queue fails the condition, sorted.
    sites: Sequence[str]
    #: Its requirement, and the offers of the queues; empty: nothing more to say.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The queues that a described job fits by the present configuration; throttles and limits are left out."""

    #: Queues at the sites that serve the VO.
    queues: int
    #: Those that would take the job.
    fitting: int
    #: Those that it fits, but that take no jobs at present.
    closed: int
    #: Sites with queues that would take the job, sorted.
    sites: Sequence[str]
    exclusions: Sequence[Exclusion]
    #: Why no pilot gets the job anywhere; empty: some may.
    never: str


class DescriptionFits:
    """The queues that the described jobs of one request fit; what all of them are compared with is read once.

    A description is bounded by the queues of the VO, of which similar ones are judged once; a repeated request within
    a minute with the same requirements is answered from the memo.
    """

    def __init__(self, *, owner: User, group: Group, submit_pools: Collection[str], memo: Memo, now: datetime) -> None:
        """Prepare the comparison.

        Args:
            owner: the owner of the jobs.
            group: the group to act in, with its VO.
            submit_pools: those that any of the jobs names.
            memo: cache of the index for lookups of the configuration.
            now: time for which bans are evaluated.
        """
        self._owner, self._group, self._vo = owner, group, group.vo
        self._submit_pools, self._memo, self._now = submit_pools, memo, now
        self._requirements = RequirementsOf(group.vo)
        #: {what the offers depend on: offers of pilots, in the order of the queues}.
        self._offers: dict[Hashable, Sequence[ResourceOffer]] = {}

    @cached_property
    def queues(self) -> Sequence[Queue]:
        """Return the queues at the sites that serve the VO."""
        return CachedLookups(self._memo).get(queues_at_hand, self._vo)

    @cached_property
    def _nodes(self) -> Mapping[int, tuple[str, ...]]:
        return reported_platforms(now=self._now)

    @cached_property
    def _lookups(self) -> CachedLookups:
        return read_for(self._submit_pools, vo=self._vo, memo=self._memo)

    def of(self, definition: QueueDefinition, description: Mapping[str, Any]) -> Fit:
        """Return how many queues jobs with this description fit, and what excludes the others.

        Args:
            definition: of the task queue that the jobs would enter.
            description: of one of them, as JSON.
        """
        stated = [description[name] for name in ("requirements", "container", "cpu_time_s", *AMOUNT)]
        key = (
            DescriptionFits,
            definition,
            self._group.priority,
            self._owner.is_active,
            json.dumps([*stated, bool(description["input_data"])]),
            self._now.replace(second=0, microsecond=0),
        )
        fit: Fit | None = self._memo.get(key)
        if fit is None:
            fit = self._compared(definition, description)
            if len(self._memo) < MAX_ENTRIES:
                self._memo[key] = fit
        return fit

    def _compared(self, definition: QueueDefinition, description: Mapping[str, Any]) -> Fit:
        required = self._requirements.of(description["requirements"])
        if required is not None:
            definition = replace(definition, submit_pools=(_POOL,))
        columns = definition.columns()
        names = {"owner_id", "group_id", "vo_id"}
        task_queue = TaskQueue(
            pk=0,
            owner=self._owner,
            group=self._group,
            vo=self._vo,
            **{name: value for name, value in columns.items() if name not in names},
        )
        needs = WaitingRequirements(task_queue=task_queue, description=description, requirements=required)
        judge = Judge(Columns.of([QueueRow(task_queue_id=0, definition=definition, trusted=True)]))
        failed: dict[str, list[Queue]] = defaultdict(list)
        fitting: list[Queue] = []
        for queue, offer in zip(self.queues, self._offers_to(task_queue, required), strict=True):
            conditions = list(judge.failed(offer))
            if not offer.accepting and "site" in conditions and judge.would_be_welcome(offer):
                conditions.remove("site")
                conditions = conditions or [CLOSED]
            if not queue.ce.is_one_of(definition.grid_middlewares):
                conditions.append(MIDDLEWARE)
            for condition in conditions:
                failed[condition].append(queue)
            if not conditions:
                fitting.append(queue)
        return Fit(
            queues=len(self.queues),
            fitting=len(fitting),
            closed=len(failed[CLOSED]),
            sites=sorted({queue.ce.site.name for queue in fitting}),
            exclusions=_exclusions(failed, self.queues, needs=needs, judge=judge),
            never="; ".join(cause.words for cause in causes_of_job(needs)),
        )

    def _offers_to(self, task_queue: TaskQueue, required: RequiredOf | None) -> Sequence[ResourceOffer]:
        """Return the offers of pilots to a task queue, in the order of the queues."""
        stated = None if required is None else json.dumps(required.stated, sort_keys=True)
        key = (stated, bool(task_queue.software), tuple(task_queue.pilot_types), bool(task_queue.platforms))
        if key not in self._offers:
            lookups = self._lookups
            if required is not None:
                lookups = _with_pool(frozenset(required.supply.eligible(canonical(required.stated))), self._memo)
            nodes = self._nodes if task_queue.platforms else {}
            offers = []
            for queue in self.queues:
                offer = offer_to(task_queue, queue, vo=self._vo, now=self._now, lookups=lookups)
                if of_queue := nodes.get(queue.pk, ()):
                    offer = replace(offer, platforms=platforms_on_nodes(queue, of_queue, lookups=lookups))
                offers.append(offer)
            self._offers[key] = offers
        return self._offers[key]


def _with_pool(eligible: frozenset[int], memo: Memo) -> PreloadedLookups:
    """Return lookups as those of ``read_for``, in which the queues that meet the requirements are in one pool."""
    return PreloadedLookups(
        {
            serves: lambda _site, _vo: True,
            pools_of_queue: lambda queue, _vo: (_POOL,) if queue.pk in eligible else (),
        },
        memo,
    )


def _exclusions(
    failed: Mapping[str, Sequence[Queue]], queues: Sequence[Queue], *, needs: WaitingRequirements, judge: Judge
) -> list[Exclusion]:
    of_site = Counter(queue.ce.site.name for queue in queues)
    exclusions = []
    for condition, excluded in failed.items():
        if excluded:
            excluded_of = Counter(queue.ce.site.name for queue in excluded)
            exclusions.append(
                Exclusion(
                    condition=condition,
                    queues=len(excluded),
                    sites=sorted(site for site, number in excluded_of.items() if number == of_site[site]),
                    detail=detail(condition, needs, judge.kinds(condition)) if condition in CONDITIONS else "",
                )
            )
    return sorted(exclusions, key=lambda each: -each.queues)[:MOST_CONDITIONS]
