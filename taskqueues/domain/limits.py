"""What a limit is on, the jobs and the places of which all that it names is true, and what it leaves (DESIGN §3.6)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import floor
from typing import Final, Protocol

LONGEST_DELAY_S: Final = 86400.0
LARGEST_BURST: Final = 100_000


class Jobs(Protocol):
    """What limits look at: a job, or what all jobs of a task queue have in common."""

    @property
    def vo_id(self) -> int:
        """Of their VO, a primary key."""

    @property
    def group_id(self) -> int:
        """Of their group."""

    @property
    def owner_id(self) -> int:
        """Of their owner."""

    @property
    def job_type(self) -> str:
        """Their type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitScope:
    """The scope of a limit, as primary keys; what is None, or the empty job type, does not matter."""

    limit_id: int
    vo_id: int | None = None
    site_id: int | None = None
    ce_id: int | None = None
    group_id: int | None = None
    owner_id: int | None = None
    job_type: str = ""
    #: Between two matches on the average; None: it delays none.
    delay_s: float | None = field(default=None, compare=False)
    #: What it says, and how far it has been used, for those who are told of it.
    words: str = field(default="", compare=False)

    def is_on(self, jobs: Jobs) -> bool:
        """Return whether it is on these jobs, at the places that it is on."""
        return (
            self.vo_id in {None, jobs.vo_id}
            and self.group_id in {None, jobs.group_id}
            and self.owner_id in {None, jobs.owner_id}
            and self.job_type in {"", jobs.job_type}
        )

    def holds_at(self, *, site_id: int | None, ce_id: int | None) -> bool:
        """Return whether it is on jobs at a place; one that is not known is in no limit of places."""
        return self.site_id in {None, site_id} and self.ce_id in {None, ce_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a limit allows to match, and what of that has been taken; None: it says nothing of the kind."""

    #: Jobs held by pilots at a time, and how many are.
    running: int | None = None
    held: int = 0
    #: Between two matches on the average; and so many at once after a pause.
    delay_s: float | None = None
    burst: int = 1
    #: When matches that keep the delay would have caught up.
    free_at: datetime | None = None
    #: CPU time of 24 hours, and what was reported.
    cpu_s_per_day: int | None = None
    cpu_s: float = 0.0

    def room(self, *, now: datetime) -> int | None:
        """Return how many jobs may be matched at this moment; None: as many as there are."""
        found = []
        if self.running is not None:
            found.append(max(0, self.running - self.held))
        if self.delay_s:
            behind_s = 0.0 if self.free_at is None else max(0.0, (self.free_at - now).total_seconds())
            found.append(max(0, self.burst - _delays(behind_s, self.delay_s)))
        if self.cpu_s_per_day is not None and self.cpu_s >= self.cpu_s_per_day:
            found.append(0)
        return min(found, default=None)

    def free_again_at(self, *, now: datetime) -> datetime | None:
        """Return when its delay allows the next match; None: it does now, or has none."""
        if not self.delay_s or self.free_at is None:
            return None
        at = self.free_at - timedelta(seconds=(self.burst - 1) * self.delay_s)
        return at if at > now else None


def _delays(behind_s: float, delay_s: float) -> int:
    """Return how many whole matches a pause falls short of; the last may be just about to be free."""
    return -floor(-behind_s / delay_s)
