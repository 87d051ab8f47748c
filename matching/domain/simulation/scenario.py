"""What is simulated: who shares, what is submitted, and where it may run."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Protocol

from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer

DAY_S = 86400.0


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
    """A VO, with how it shares (DESIGN §3.3, §3.5)."""

    vo_id: int
    name: str
    history_fair_share: bool = False
    #: Of the matches: they ignore the rule of the highest CPU segment.
    any_segment_fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """A group, with the share that its task queues divide among them."""

    group_id: int
    vo_id: int
    name: str
    #: Dimensionless, ≥ 0.
    share: float
    shares_jobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """How long jobs run: lognormal around a mean, or all equally long.

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
    """Jobs of one kind: where they wait, how many come, and how long they run."""

    definition: QueueDefinition
    user_priority: int
    #: On average; they come as a Poisson process.
    jobs_per_day: float
    #: Jobs that wait when the simulation begins.
    waiting_at_start: int = 0
    run_time: RunTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots of one queue of a computing element, each of which runs one job at a time."""

    site: str
    number: int
    #: Of each slot.
    processors: int
    #: What a fresh generic pilot of each VO offers there, by VO.
    offers: Mapping[int, ResourceOffer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that is simulated. Ids are the scenario's own."""

    vos: tuple[SimulatedVO, ...]
    groups: tuple[SimulatedGroup, ...]
    #: {owner id: user name}.
    users: Mapping[int, str]
    #: Owners who are suspended: their jobs wait.
    suspended: frozenset[int] = frozenset()
    work: tuple[Work, ...]
    slots: tuple[Slots, ...]
