"""The queues that described jobs fit, before they are submitted: the conditions of the match, site by site."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from matching.domain.condition_words import EXCLUDED_BY, detail
from matching.domain.facts import in_words
from matching.domain.findings import CLOSED, MIDDLEWARE, Exclusion, Fit, WaitingRequirements
from matching.queries.explain.comparison import UNREGISTERED_POOL, Comparison, causes_of_job, judge_of
from resources.models import Queue
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.queue_check import Judge
from wms.accounts.models import Group, User
from wms.kernel.memo import BriefMemo, state_of
from wms.wire.amounts import AMOUNT

#: By requirements, configuration, and minute, because bans end by themselves.
_fits: Final[BriefMemo[Fit]] = BriefMemo(kept_s=60, most=500)
#: Conditions in the answer, those that exclude most queues first.
MOST_CONDITIONS: Final = 10


def fit_of(
    definition: QueueDefinition, description: Mapping[str, object], *, owner: User, group: Group, comparison: Comparison
) -> Fit:
    """Return how many queues jobs with this description fit, and what excludes the others.

    A description is bounded by the queues of the VO, of which similar ones are judged once; a repeated request within
    a minute with the same requirements is not judged again.

    Args:
        definition: of the task queue that the jobs would enter.
        description: of one of them, as JSON.
        owner: the owner of the jobs.
        group: the group to act in, with its VO.
        comparison: with the queues of this VO, without throttles and limits.
    """
    stated = [description[name] for name in ("requirements", "container", "cpu_time_s", *AMOUNT)]
    key = (
        definition,
        group.priority,
        owner.is_active,
        json.dumps([*stated, bool(description["input_data"])]),
        comparison.now.replace(second=0, microsecond=0),
        state_of(comparison.memo),
    )
    if description["requirements"]:
        definition = replace(definition, submit_pools=(UNREGISTERED_POOL,))
    return _fits.get(
        key, lambda: _compared(comparison.needs(definition, description, owner=owner, group=group), comparison)
    )


def _compared(needs: WaitingRequirements, comparison: Comparison) -> Fit:
    judge = judge_of(needs)
    failed: dict[str, list[Queue]] = defaultdict(list)
    fitting: list[Queue] = []
    for place in comparison.places(needs, judge):
        conditions = [*place.unmet] if place.unmet or not place.failed else [CLOSED]
        if not place.queue.ce.is_one_of(needs.definition.grid_middlewares):
            conditions.append(MIDDLEWARE)
        for condition in conditions:
            failed[condition].append(place.queue)
        if not conditions:
            fitting.append(place.queue)
    return Fit(
        queues=len(comparison.queues),
        fitting=len(fitting),
        closed=len(failed.get(CLOSED, ())),
        sites=sorted({queue.ce.site.name for queue in fitting}),
        exclusions=list(_exclusions(failed, comparison.queues, needs=needs, judge=judge)),
        never="; ".join(in_words(cause.what) for cause in causes_of_job(needs)),
    )


def _exclusions(
    failed: Mapping[str, Sequence[Queue]], queues: Sequence[Queue], *, needs: WaitingRequirements, judge: Judge
) -> Iterator[Exclusion]:
    of_site = Counter(queue.ce.site.name for queue in queues)
    for condition, excluded in sorted(failed.items(), key=lambda item: -len(item[1]))[:MOST_CONDITIONS]:
        excluded_of = Counter(queue.ce.site.name for queue in excluded)
        yield Exclusion(
            condition=condition,
            queues=len(excluded),
            sites=sorted(site for site, number in excluded_of.items() if number == of_site[site]),
            why=EXCLUDED_BY.get(condition) or detail(condition, needs, judge.kinds(condition)),
        )
