"""The input of a simulation: VOs, groups, jobs and slots."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Protocol

from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer

DAY_S = 86400.0
HOUR_S = 3600.0


class Chance(Protocol):
    """A stream of random numbers, such as ``random.Random``."""

    def random(self) -> float:
        """Return a number that is uniform in [0, 1)."""

    def expovariate(self, lambd: float, /) -> float:
        """Return an exponentially distributed number with the mean 1/*lambd*."""

    def lognormvariate(self, mu: float, sigma: float, /) -> float:
        """Return a number whose logarithm is normal with this mean and standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedVO:
    """A VO and its parameters of sharing (docs/architecture.md, Priorities)."""

    vo_id: int
    name: str
    history_fair_share: bool = False
    #: Fraction of the matches that ignore the rule of the highest CPU segment.
    any_segment_fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """A group, with the share that is divided over its task queues."""

    group_id: int
    vo_id: int
    name: str
    #: Dimensionless, ≥ 0.
    share: float
    shares_jobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The run time of jobs: lognormal around a mean, or constant.

    Args:
        mean_s: seconds, > 0.
        sigma: standard deviation of the logarithm; 0: all run *mean_s*.
        most_s: seconds after which the watchdog stops a job.
    """

    mean_s: float
    sigma: float = 0.0
    most_s: float

    def draw(self, chance: Chance) -> float:
        """Return the run time of one job in seconds."""
        if not self.sigma:
            return min(self.mean_s, self.most_s)
        # The mean of a lognormal is exp(mu + sigma² / 2).
        return min(chance.lognormvariate(log(self.mean_s) - self.sigma**2 / 2, self.sigma), self.most_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Jobs of one kind: their task queue, their rate, and their run time."""

    definition: QueueDefinition
    user_priority: int
    #: Mean; they arrive as a Poisson process.
    jobs_per_day: float
    #: Jobs that wait at the beginning of the simulation.
    waiting_at_start: int = 0
    run_time: RunTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots of one queue of a computing element; each runs one job at a time."""

    site: str
    number: int
    #: Of each slot.
    processors: int
    #: The offer of a new generic pilot there, by VO.
    offers: Mapping[int, ResourceOffer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The whole input of a simulation. Its ids are its own."""

    vos: tuple[SimulatedVO, ...]
    groups: tuple[SimulatedGroup, ...]
    #: {owner id: user name}.
    users: Mapping[int, str]
    #: Owners who are suspended: their jobs wait.
    suspended: frozenset[int] = frozenset()
    work: tuple[Work, ...]
    slots: tuple[Slots, ...]
