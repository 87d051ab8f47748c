"""Scopes of limits, the jobs and places to which they apply, and their remaining room."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import floor
from typing import Final, Protocol

LONGEST_DELAY_S: Final = 86400.0
LARGEST_BURST: Final = 100_000
#: Fields of the scope.
SCOPE: Final = ("vo", "site", "ce", "group", "user", "job_type")
#: Fields of the bounds; the last belongs to the one before it.
BOUNDS: Final = ("running", "waiting", "cpu_s_per_day", "delay_s", "burst")
WITHOUT_BOUND: Final = ("running", "give running, waiting, cpu_s_per_day or delay_s")
WAITING_AT_A_PLACE: Final = (
    "waiting",
    "a limit of waiting jobs has no site and no CE; leave both out, or limit running jobs",
)


def contradictions_in(values: Mapping[str, object], *, vo_of_group: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (field, sentence) for what is wrong with a limit, whatever else is stored; "" is its scope.

    Args:
        values: by the names of SCOPE and BOUNDS; None, and the empty job type, are left out.
        vo_of_group: VO of the group that it names; None: not known, or it names none.
    """
    vo = values["vo"]
    if not any(values[name] for name in SCOPE):
        yield "", "name at least one of vo, site, ce, group, user and job_type"
    if all(values[name] is None for name in BOUNDS[:-1]):
        yield WITHOUT_BOUND
    if values["burst"] is not None and values["delay_s"] is None:
        yield "burst", "a burst requires a delay; give the delay"
    if values["waiting"] is not None and (values["site"] or values["ce"]):
        yield WAITING_AT_A_PLACE
    if vo and vo_of_group not in {None, vo}:
        yield "group", f"the group belongs to {vo_of_group}; choose a group of {vo}, or leave the VO out"


def bounded_by_both(one: object, other: object) -> list[str]:
    """Return the bounds that two limits on the same jobs both have: only the smaller value of each would count."""
    return [name for name in BOUNDS[:-1] if None not in {getattr(one, name), getattr(other, name)}]


class Jobs(Protocol):
    """The properties of a job, or of all jobs of a task queue, that limits use."""

    @property
    def vo_id(self) -> int:
        """Primary key of their VO."""

    @property
    def group_id(self) -> int:
        """Primary key of their group."""

    @property
    def owner_id(self) -> int:
        """Primary key of their owner."""

    @property
    def job_type(self) -> str:
        """Their type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitScope:
    """The scope of a limit, as primary keys; None, and the empty job type, mean any."""

    limit_id: int
    vo_id: int | None = None
    site_id: int | None = None
    ce_id: int | None = None
    group_id: int | None = None
    owner_id: int | None = None
    job_type: str = ""
    #: Mean seconds between two matches; None: no delay.
    delay_s: float | None = field(default=None, compare=False)
    #: The limit and its usage in words.
    words: str = field(default="", compare=False)
    #: Whether it closes a VO, a group or a place as a whole, until somebody changes it.
    is_closing: bool = field(default=False, compare=False)

    def is_on(self, jobs: Jobs) -> bool:
        """Return whether it applies to these jobs, at its places."""
        return (
            self.vo_id in {None, jobs.vo_id}
            and self.group_id in {None, jobs.group_id}
            and self.owner_id in {None, jobs.owner_id}
            and self.job_type in {"", jobs.job_type}
        )

    def holds_at(self, *, site_id: int | None, ce_id: int | None) -> bool:
        """Return whether it applies to jobs at a place; an unknown place is in no limit on places."""
        return self.site_id in {None, site_id} and self.ce_id in {None, ce_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The values of a limit and their usage; None: not limited."""

    #: Jobs held by pilots at a time, and their present number.
    running: int | None = None
    held: int = 0
    #: Mean seconds between two matches; and matches allowed at once after a pause.
    delay_s: float | None = None
    burst: int = 1
    #: Time at which matches that keep the delay would have caught up.
    free_at: datetime | None = None
    #: CPU time in 24 hours, and the reported one.
    cpu_s_per_day: int | None = None
    cpu_s: float = 0.0

    @property
    def are_closing(self) -> bool:
        """Return whether one of them is zero, so that no job is matched until somebody changes it."""
        return self.running == 0 or self.cpu_s_per_day == 0

    def room(self, *, now: datetime) -> int | None:
        """Return the number of jobs that may be matched now; None: any number."""
        rooms = []
        if self.running is not None:
            rooms.append(max(0, self.running - self.held))
        if self.delay_s:
            behind_s = 0.0 if self.free_at is None else max(0.0, (self.free_at - now).total_seconds())
            rooms.append(max(0, self.burst - _delays(behind_s, self.delay_s)))
        if self.cpu_s_per_day is not None and self.cpu_s >= self.cpu_s_per_day:
            rooms.append(0)
        return min(rooms, default=None)

    def free_again_at(self, *, now: datetime) -> datetime | None:
        """Return the time at which the delay allows the next match; None: now, or there is no delay."""
        if not self.delay_s or self.free_at is None:
            return None
        at = self.free_at - timedelta(seconds=(self.burst - 1) * self.delay_s)
        return at if at > now else None


def _delays(behind_s: float, delay_s: float) -> int:
    """Return the whole matches that a pause falls short of; the last may be about to become free."""
    return -floor(-behind_s / delay_s)
