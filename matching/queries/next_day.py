"""The next day of a VO in simulation: the part of each group by hour, with its priority as it is and another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from time import monotonic
from types import MappingProxyType
from typing import Final

from django.db.models import Count, F, QuerySet, Sum

from matching.domain.simulation.scenario import DAY_S, RunTime, Scenario, SimulatedGroup, SimulatedVO, Slots, Work
from matching.domain.simulation.simulator import used_by_hour
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import Queue
from taskqueues.domain.definition import QueueDefinition
from taskqueues.models import TaskQueue
from taskqueues.queries import parts_in_effect, parts_of
from taskqueues.services.offers import offer_of_queue, read_for
from wms.accounts.models import VO, Group
from wms.jobs.domain.accounting import Width
from wms.jobs.models import JobBucket

HOURS: Final = 24
#: Task queues that are simulated: those of the greatest priorities.
MOST_TASK_QUEUES: Final = 100
#: Batch queues that are simulated: those with the most pilots.
MOST_QUEUES: Final = 50
#: Jobs that start in a day of one simulation: all numbers are scaled down to about so many.
MOST_STARTS: Final = 1000
#: In which both simulations end, whatever the hour.
WITHIN_S: Final = 1.5
#: Mean run time of jobs of a group without jobs that ended lately.
_RUN_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHour:
    """{group id: its part of the processor time of the VO, 0 to 1} in one hour."""

    now: Mapping[int, float]
    #: With the other priority.
    then: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextDay:
    """The simulated hours, fewer than HOURS if there was no time for more; and what was simulated."""

    hours: Sequence[SimulatedHour]
    #: Pilots that run now.
    pilots: int
    task_queues: int
    #: Of lower priorities.
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastDay:
    """The jobs of a group that came and ended on the last day."""

    started: float = 0.0
    run_s: float = _RUN_S


def next_day(group: Group, *, priority: float, now: datetime) -> NextDay:
    """Simulate the next day of the VO of *group* twice: as it is, and with another *priority* of the group.

    Jobs that wait are those that wait now; as many more arrive for each task queue as jobs of its group started on the
    last day, in proportion. As many pilots run as run now. Corrections by usage stay as they are.
    """
    vo = group.vo
    scenario, left_out = _scenario(vo, now=now)
    other = parts_in_effect(vo, instead={group.pk: priority})
    changed = replace(scenario, groups=tuple(replace(each, share=other[each.group_id]) for each in scenario.groups))
    runs = [used_by_hour(each, hours=HOURS, chance_of=_chance) for each in (scenario, changed)]
    return NextDay(
        hours=list(_hours(runs)),
        pilots=_pilots_of(vo).count(),
        task_queues=len({work.definition for work in scenario.work}),
        left_out=left_out,
    )


def _hours(runs: Sequence[Iterator[Mapping[int, float]]]) -> Iterator[SimulatedHour]:
    until = monotonic() + WITHIN_S
    for as_it_is, with_other in zip(*runs, strict=True):
        yield SimulatedHour(now=parts_of(as_it_is), then=parts_of(with_other))
        if monotonic() > until:
            return


def _chance(name: str) -> Random:
    """Return a stream of random numbers; both simulations get the same."""
    return Random(name)  # noqa: S311 - no secret


def _scenario(vo: VO, *, now: datetime) -> tuple[Scenario, int]:
    """Return the scenario, and the number of task queues that it leaves out."""
    shares, last_day = parts_in_effect(vo), _last_day(vo, now=now)
    task_queues = list(
        TaskQueue.objects.filter(vo=vo, priority__gt=0).order_by("-priority", "pk")[: MOST_TASK_QUEUES + 1]
    )
    left_out = 0
    if len(task_queues) > MOST_TASK_QUEUES:
        task_queues.pop()
        left_out = TaskQueue.objects.filter(vo=vo, priority__gt=0).count() - MOST_TASK_QUEUES
    at_queues = dict(_pilots_of(vo).values_list("queue").annotate(number=Count("pk")).order_by("-number")[:MOST_QUEUES])
    scale = _scale(task_queues, pilots=sum(at_queues.values()), last_day=last_day)
    scenario = Scenario(
        # Corrected shares are simulated as shares: their usage is of longer than a day.
        vos=(SimulatedVO(vo_id=vo.pk, name=vo.name, any_segment_fraction=vo.any_segment_fraction),),
        groups=tuple(
            SimulatedGroup(
                group_id=each.pk, vo_id=vo.pk, name=each.name, share=shares[each.pk], shares_jobs=each.shares_jobs
            )
            for each in vo.groups.order_by("name")
        ),
        users=MappingProxyType({}),
        work=tuple(_work(task_queues, scale=scale, last_day=last_day)),
        slots=tuple(_slots(vo, task_queues, at_queues=at_queues, scale=scale, now=now)),
    )
    return scenario, left_out


def _pilots_of(vo: VO) -> QuerySet[Pilot]:
    # Uses index: pilot_alive_at_queue
    return Pilot.objects.filter(vo=vo, ended_at=None, queue__isnull=False, status=PilotStatus.RUNNING)


def _last_day(vo: VO, *, now: datetime) -> Mapping[int, _LastDay]:
    """Return {group id: what its jobs did}."""
    hours = JobBucket.objects.filter(vo=vo, width_s=Width.HOUR, begun_at__gt=now - timedelta(days=1)).order_by()
    sums = hours.values_list("group").annotate(Sum("started"), Sum("wall_s"), ended=Sum(F("done") + F("failed")))
    return {
        group_id: _LastDay(started=started, run_s=max(60.0, wall_s / ended) if ended else _RUN_S)
        for group_id, started, wall_s, ended in sums
    }


def _scale(task_queues: Sequence[TaskQueue], *, pilots: int, last_day: Mapping[int, _LastDay]) -> float:
    """Return the factor by which pilots and jobs are fewer in the simulation than they are, at most 1."""
    run_s = [last_day.get(each.group_id, _LastDay()).run_s for each in task_queues]
    mean_s = sum(run_s) / len(run_s) if run_s else _RUN_S
    starts = pilots * DAY_S / mean_s
    return min(1.0, MOST_STARTS / starts) if starts else 1.0


def _work(task_queues: Sequence[TaskQueue], *, scale: float, last_day: Mapping[int, _LastDay]) -> Iterator[Work]:
    kinds = [
        (each, user_priority, jobs)
        for each in task_queues
        for user_priority, jobs in enumerate(each.jobs_of_level)
        if jobs
    ]
    waiting: dict[int, int] = {}
    for each, _, jobs in kinds:
        waiting[each.group_id] = waiting.get(each.group_id, 0) + jobs
    for (each, user_priority, jobs), scaled in zip(kinds, _scaled([jobs for *_, jobs in kinds], scale), strict=True):
        lately = last_day.get(each.group_id, _LastDay())
        yield Work(
            definition=QueueDefinition.of_columns(
                {each_.name: getattr(each, each_.name) for each_ in fields(QueueDefinition)}
            ),
            user_priority=user_priority,
            jobs_per_day=lately.started * scale * jobs / waiting[each.group_id],
            # A kind of which nothing is left has no part; more than start in a day make no difference.
            waiting_at_start=min(max(1, scaled), MOST_STARTS),
            run_time=RunTime(mean_s=lately.run_s, most_s=DAY_S),
        )


def _slots(
    vo: VO, task_queues: Sequence[TaskQueue], *, at_queues: Mapping[int, int], scale: float, now: datetime
) -> Iterator[Slots]:
    pools = {pool for each in task_queues for pool in each.submit_pools}
    lookups = read_for(pools, vo=vo, memo={})
    queues = Queue.objects.select_related("ce__site").in_bulk(list(at_queues))
    for (queue_id, _), number in zip(at_queues.items(), _scaled(list(at_queues.values()), scale), strict=True):
        queue = queues[queue_id]
        if number:
            offer = offer_of_queue(queue, vo=vo, now=now, lookups=lookups)
            yield Slots(site=queue.ce.site.name, number=number, processors=queue.processors, offers={vo.pk: offer})


def _scaled(numbers: Sequence[int], scale: float) -> list[int]:
    """Return whole numbers in the same proportions whose sum is that of *numbers* times *scale*, rounded."""
    sums = [0]
    for number in numbers:
        sums.append(sums[-1] + number)
    return [round(end * scale) - round(begin * scale) for begin, end in pairwise(sums)]
