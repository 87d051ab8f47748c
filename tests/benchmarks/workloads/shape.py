"""The shape of a workload, independent of a database: groups, owners, sites, and the number of jobs of each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from random import Random

#: User priorities of the jobs, and how often each is asked for.
USER_PRIORITIES = {1: 70, 3: 10, 5: 10, 9: 5, 10: 3, 0: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """One group of users."""

    name: str
    priority: float
    shares_jobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShape:
    """One user, who is in one group."""

    name: str
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShape:
    """One task queue: the requirements of its jobs, and their number.

    ``owner`` is an index; an empty list accepts anything.
    """

    owner: int
    cpu_time_s: int
    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    job_type: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Waiting jobs, and the distribution of offers: a site by its weight, one platform, one CPU time, some tags."""

    name: str
    cpu_segments_s: tuple[int, ...]
    groups: tuple[GroupShape, ...]
    owners: tuple[OwnerShape, ...]
    sites: tuple[str, ...]
    site_weights: tuple[int, ...]
    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    queues: tuple[QueueShape, ...]
    offered_cpu_time_s: tuple[int, ...]
    most_offered_tags: int

    @property
    def jobs(self) -> int:
        """The number of waiting jobs."""
        return sum(queue.jobs for queue in self.queues)

    @property
    def campaigns(self) -> int:
        """The number of labels ``campaign0`` and so on, each borne by CAMPAIGN jobs."""
        return max(1, self.jobs // CAMPAIGN)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferShape:
    """The offer of one pilot; ``site`` is an index."""

    site: int
    platform: str
    cpu_time_s: int
    tags: tuple[str, ...]


#: Jobs of one label, less at most one submission's: as many as one request may kill.
CAMPAIGN = 100_000


def draw_offer(workload: Workload, *, chance: Random) -> OfferShape:
    """Return an offer as the workload describes them."""
    (site,) = chance.choices(range(len(workload.sites)), weights=workload.site_weights)
    return OfferShape(
        site=site,
        platform=chance.choice(workload.platforms),
        cpu_time_s=chance.choice(workload.offered_cpu_time_s),
        tags=tuple(chance.sample(workload.tags, chance.randint(0, workload.most_offered_tags))),
    )


def apportion(total: int, weights: Sequence[float], *, least: int = 0) -> list[int]:
    """Divide *total* in proportion to *weights* into whole parts of at least *least*, which add up to it."""
    rest = total - least * len(weights)
    if rest < 0:
        raise ValueError(f"{total} is not enough for {len(weights)} parts of at least {least}")
    whole = sum(weights)
    exact = [rest * weight / whole for weight in weights]
    parts = [floor(part) for part in exact]
    most_cut_off = sorted(range(len(weights)), key=lambda number: parts[number] - exact[number])
    for number in most_cut_off[: rest - sum(parts)]:
        parts[number] += 1
    return [least + part for part in parts]
