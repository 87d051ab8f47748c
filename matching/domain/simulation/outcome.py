"""The result of a simulation."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from matching.domain.simulation.counting import DeliveryCount, RunAmount
from matching.domain.simulation.ledger import Ledger
from matching.domain.simulation.scenario import Scenario
from matching.domain.simulation.waiting import Waiting
from taskqueues.domain.definition import QueueDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimes:
    """Waiting times of jobs that started, in seconds."""

    median_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Usage of some jobs of a VO."""

    submitted: int
    started: int
    finished: int
    running: int
    waiting: int
    #: Time in which they ran, multiplied by their processors (ADR 13).
    processor_s: float
    #: Fraction of the usage of the whole VO, 0 to 1; None: the VO used nothing.
    cpu_share: float | None
    start_share: float | None
    #: None: none started.
    waits: WaitTimes | None
    #: Waiting time of the oldest job that still waits; None: none waits.
    oldest_waiting_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contended:
    """Usage of a group while jobs of it waited."""

    #: Duration, as a fraction of the simulated time.
    time_fraction: float
    #: Fraction of the usage of the whole VO in that time; None: the VO used nothing.
    cpu_share: float | None
    start_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The result of a group."""

    vo: str
    group: str
    shares_jobs: bool
    #: Fraction of the shares of its VO, 0 to 1; None: all of them are 0.
    configured_share: float | None
    delivered: Delivered
    contended: Contended


@dataclass(frozen=True, slots=True, kw_only=True)
class UserResult:
    """The result of a user in a group that does not share jobs."""

    vo: str
    group: str
    user: str
    delivered: Delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentResult:
    """The result of one CPU segment of a VO."""

    vo: str
    cpu_segment_s: int
    delivered: Delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteResult:
    """The result of a site."""

    site: str
    slots: int
    started: int
    #: Fraction of the slots' time in which jobs ran, and of their processors' time that jobs required; None: no slots.
    utilization: float | None
    processor_utilization: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """All results, in the order of the scenario; segments shortest first."""

    simulated_s: float
    groups: tuple[GroupResult, ...]
    users: tuple[UserResult, ...]
    segments: tuple[SegmentResult, ...]
    sites: tuple[SiteResult, ...]


def outcome_of(scenario: Scenario, *, ledger: Ledger, waiting: Waiting, until_s: float) -> SimulationResult:
    """Return the result of a simulation that has been counted until *until_s* seconds."""
    telling = _ResultBuilder(scenario, ledger, waiting, until_s)
    return SimulationResult(
        simulated_s=until_s,
        groups=telling.groups(),
        users=telling.users(),
        segments=telling.segments(),
        sites=telling.sites(),
    )


class _ResultBuilder:
    def __init__(self, scenario: Scenario, ledger: Ledger, waiting: Waiting, until_s: float) -> None:
        self._scenario, self._ledger, self._waiting, self._until_s = scenario, ledger, waiting, until_s
        self._vo_name = {vo.vo_id: vo.name for vo in scenario.vos}
        self._group_of = {group.group_id: group for group in scenario.groups}

    def groups(self) -> tuple[GroupResult, ...]:
        whole: defaultdict[int, float] = defaultdict(float)
        for group in self._scenario.groups:
            whole[group.vo_id] += group.share
        oldest = self._oldest(lambda queue: queue.group_id)
        return tuple(
            GroupResult(
                vo=self._vo_name[group.vo_id],
                group=group.name,
                shares_jobs=group.shares_jobs,
                configured_share=_part(group.share, whole[group.vo_id]),
                delivered=self._delivered(
                    self._ledger.groups[group.group_id], vo_id=group.vo_id, oldest_s=oldest.get(group.group_id)
                ),
                contended=self._contended(group.group_id),
            )
            for group in self._scenario.groups
        )

    def users(self) -> tuple[UserResult, ...]:
        oldest = self._oldest(lambda queue: (queue.group_id, queue.owner_id))
        return tuple(
            UserResult(
                vo=self._vo_name[group.vo_id],
                group=group.name,
                user=self._scenario.users[owner_id],
                delivered=self._delivered(tally, vo_id=group.vo_id, oldest_s=oldest.get((group.group_id, owner_id))),
            )
            for (group_id, owner_id), tally in sorted(self._ledger.owners.items())
            if not (group := self._group_of[group_id]).shares_jobs
        )

    def segments(self) -> tuple[SegmentResult, ...]:
        oldest = self._oldest(lambda queue: (queue.vo_id, queue.cpu_time_s))
        return tuple(
            SegmentResult(
                vo=self._vo_name[vo_id],
                cpu_segment_s=segment_s,
                delivered=self._delivered(tally, vo_id=vo_id, oldest_s=oldest.get((vo_id, segment_s))),
            )
            for (vo_id, segment_s), tally in sorted(self._ledger.segments.items())
        )

    def sites(self) -> tuple[SiteResult, ...]:
        slots: defaultdict[str, int] = defaultdict(int)
        processors: defaultdict[str, int] = defaultdict(int)
        for place in self._scenario.slots:
            slots[place.site] += place.number
            processors[place.site] += place.number * place.processors
        return tuple(
            SiteResult(
                site=site,
                slots=number,
                started=(tally := self._ledger.sites[site]).started,
                utilization=_part(tally.job_s, number * self._until_s),
                processor_utilization=_part(tally.processor_s, processors[site] * self._until_s),
            )
            for site, number in slots.items()
        )

    def _contended(self, group_id: int) -> Contended:
        demand = self._ledger.demands[group_id]
        cpu_share, start_share = _shares(demand.group, demand.vo)
        return Contended(time_fraction=demand.waited_s / self._until_s, cpu_share=cpu_share, start_share=start_share)

    def _delivered(self, tally: DeliveryCount, *, vo_id: int, oldest_s: float | None) -> Delivered:
        vo = self._ledger.vos[vo_id]
        part, whole = (RunAmount(each.started, each.processor_s) for each in (tally, vo))
        cpu_share, start_share = _shares(part, whole)
        return Delivered(
            submitted=tally.submitted,
            started=tally.started,
            finished=tally.finished,
            running=tally.running,
            waiting=tally.waiting,
            processor_s=tally.processor_s,
            cpu_share=cpu_share,
            start_share=start_share,
            waits=_waits(tally),
            oldest_waiting_s=None if oldest_s is None else self._until_s - oldest_s,
        )

    def _oldest(self, key_of: Callable[[QueueDefinition], Hashable]) -> Mapping[Hashable, float]:
        oldest: dict[Hashable, float] = {}
        for queue, submitted_at_s in self._waiting.oldest():
            key = key_of(queue)
            oldest[key] = min(submitted_at_s, oldest.get(key, submitted_at_s))
        return oldest


def _waits(tally: DeliveryCount) -> WaitTimes | None:
    if not tally.waits_s:
        return None
    median_s, p95_s, max_s = np.quantile(np.asarray(tally.waits_s), (0.5, 0.95, 1.0)).tolist()
    return WaitTimes(median_s=median_s, p95_s=p95_s, max_s=max_s)


def _shares(part: RunAmount, whole: RunAmount) -> tuple[float | None, float | None]:
    return _part(part.processor_s, whole.processor_s), _part(part.started, whole.started)


def _part(part: float, whole: float) -> float | None:
    return part / whole if whole else None
