"""The queues that a described job fits, before it is submitted: the conditions of the match, site by site."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from matching.queries.explain.condition_texts import RequiredOf, WaitingRequirements, causes_of_job, detail
from resources.domain.requirements import canonical
from resources.models import Queue
from resources.queries.eligible_queues import supply_of
from resources.queries.known_names import requirement_kinds, requirement_units
from resources.queries.nodes import reported_platforms
from resources.queries.places import queues_at_hand, serves
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.queries import pools_of_queue
from taskqueues.services.offers import offer_to, platforms_on_nodes, read_for
from wms.accounts.models import VO, Group, User
from wms.kernel.memo import MAX_ENTRIES, CachedLookups, Memo, PreloadedLookups

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


def fit_of_description(
    definition: QueueDefinition,
    *,
    owner: User,
    group: Group,
    description: Mapping[str, Any],
    memo: Memo,
    now: datetime,
) -> Fit:
    """Return how many queues of the VO a job with this description fits, and what excludes the others.

    Bounded by the queues of the VO, of which similar ones are judged once; repeated calls within a minute with the same
    requirements are answered from *memo*.

    Args:
        definition: of the task queue that the job would enter.
        owner: the owner of the job.
        group: the group to act in, with its VO.
        description: of the job, as JSON.
        memo: cache of the index for lookups of the configuration.
        now: time for which bans are evaluated.
    """
    required = description["requirements"]
    stated = json.dumps(
        [required, description["container"], description["cpu_time_s"], bool(description["input_data"])]
    )
    key = (
        fit_of_description,
        definition,
        group.priority,
        owner.is_active,
        stated,
        now.replace(second=0, microsecond=0),
    )
    fit: Fit | None = memo.get(key)
    if fit is None:
        fit = _fit(definition, owner=owner, group=group, description=description, memo=memo, now=now)
        if len(memo) < MAX_ENTRIES:
            memo[key] = fit
    return fit


def _fit(
    definition: QueueDefinition,
    *,
    owner: User,
    group: Group,
    description: Mapping[str, Any],
    memo: Memo,
    now: datetime,
) -> Fit:
    vo = group.vo
    required = _required(vo, description["requirements"])
    lookups: CachedLookups = read_for(definition.submit_pools, vo=vo, memo=memo)
    if required is not None:
        definition = replace(definition, submit_pools=(_POOL,))
        lookups = _with_pool(frozenset(required.supply.eligible(canonical(required.stated))), memo)
    columns = definition.columns()
    names = {"owner_id", "group_id", "vo_id"}
    task_queue = TaskQueue(
        pk=0, owner=owner, group=group, vo=vo, **{name: value for name, value in columns.items() if name not in names}
    )
    needs = WaitingRequirements(task_queue=task_queue, description=description, requirements=required)
    judge = Judge(Columns.of([QueueRow(task_queue_id=0, definition=definition, trusted=True)]))
    nodes = reported_platforms(now=now) if definition.platforms else {}
    failed: dict[str, list[Queue]] = defaultdict(list)
    fitting: list[Queue] = []
    queues = lookups.get(queues_at_hand, vo)
    for queue in queues:
        offer = offer_to(task_queue, queue, vo=vo, now=now, lookups=lookups)
        if of_queue := nodes.get(queue.pk, ()):
            offer = replace(offer, platforms=platforms_on_nodes(queue, of_queue, lookups=lookups))
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
        queues=len(queues),
        fitting=len(fitting),
        closed=len(failed[CLOSED]),
        sites=sorted({queue.ce.site.name for queue in fitting}),
        exclusions=_exclusions(failed, queues, needs=needs, judge=judge),
        never="; ".join(cause.words for cause in causes_of_job(needs)),
    )


def _required(vo: VO, stated: Mapping[str, object]) -> RequiredOf | None:
    if not stated:
        return None
    return RequiredOf(stated=stated, kinds=requirement_kinds(vo), units=requirement_units(vo), supply=supply_of(vo))


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
