"""Warnings about jobs that no pilot gets, or is sent for, in the present configuration (ADR 32)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from matching.domain.headline import Ground, HeadlineKind, headline
from matching.queries.explain.condition_texts import RequiredOf, WaitingRequirements, causes_of_job
from matching.queries.explain.held_back import HeldBackState
from matching.queries.explain.pilots import PilotsThere, none_of_the_middleware
from matching.queries.explain.places import ComparedPlace, Comparison, ExplainedCondition, conditions_at
from matching.queries.explain.summary import Findings, QueueRank, waiting
from resources.queries.eligible_queues import supply_of
from resources.queries.known_names import requirement_kinds, requirement_units
from taskqueues.domain.columns import Columns
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from wms.accounts.models import VO
from wms.kernel.memo import Memo

#: Causes that pass within minutes: no warning is given for them.
_PASSING = frozenset({Ground.THROTTLE, Ground.LIMIT, Ground.DELAY})
#: Headlines with which no pilot gets the job until somebody changes something.
_WARNED_OF = frozenset({HeadlineKind.NEVER_DRAWN, HeadlineKind.NO_QUEUES, HeadlineKind.MISMATCH, HeadlineKind.CLOSED})


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
    requirements = RequirementsOf(task_queue.group.vo).of(description["requirements"])
    needs = WaitingRequirements(
        task_queue=task_queue, description=description, is_of_member=is_of_member, requirements=requirements
    )
    of_job = causes_of_job(needs)
    comparison = Comparison([task_queue], vo=task_queue.group.vo, nodes=nodes, memo=memo, now=now, closings=False)
    places: list[ComparedPlace] = []
    # First the queues of the sites that it names, of which mostly one fits, and only if none does all of the VO.
    for sites in (task_queue.sites, None) if task_queue.sites else (None,):
        places = []
        for place in comparison.places(task_queue, judge, waits=HeldBackState(), sites=sites):
            if not place.causes and not of_job and place.queue.ce.is_one_of(task_queue.grid_middlewares):
                # The remaining queues, perhaps thousands, cannot change that.
                return ""
            places.append(place)
    return doubt_about(needs, places, conditions_at(judge, needs, places))


def doubt_about(
    needs: WaitingRequirements, places: Sequence[ComparedPlace], conditions: Sequence[ExplainedCondition]
) -> str:
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


class RequirementsOf:
    """The resource requirements of jobs of one VO; the queues that serve it are read once, if some job has any."""

    def __init__(self, vo: VO) -> None:
        self._vo = vo
        self._read: RequiredOf | None = None

    def of(self, stated: Mapping[str, object]) -> RequiredOf | None:
        """Return the requirements of a job and how the queues meet them now; None: it has none."""
        if not stated:
            return None
        if self._read is None:
            kinds, units = requirement_kinds(self._vo), requirement_units(self._vo)
            self._read = RequiredOf(stated=stated, kinds=kinds, units=units, supply=supply_of(self._vo))
        return replace(self._read, stated=stated)
