"""Pilot efficiency: the final states of submitted pilots, and the number of jobs that they got (PIL §2.3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.db.models import Count, F, Q, QuerySet

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.queries import WAITS
from wms.accounts.models import VO, User

#: Properties by which pilots may be grouped, with their columns.
GROUP_BY: Final[Mapping[str, str]] = MappingProxyType(
    {"site": "queue__ce__site__name", "ce": "queue__ce__name", "queue": "queue__name", "vo": "vo__name"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The pilots of one place or VO that were submitted within a period.

    Each is one of *waiting*, *stalled*, *running*, *done*, *aborted*, *failed* and *lost*.

    Args:
        values: by name of GROUP_BY; None: made by hand, or the queue was removed.
        submitted: all of them; also those that registered themselves.
        waiting: not started yet, and not stalled.
        stalled: not started in time, and so killed.
        running: started, and not ended.
        matched: have had a job.
        empty: ran and ended normally without ever having a job.
        done, aborted, failed, lost: ended in that status.
        jobs: number of their leases.
    """

    values: Mapping[str, str | None]
    submitted: int
    waiting: int
    stalled: int
    running: int
    matched: int
    empty: int
    done: int
    aborted: int
    failed: int
    lost: int
    jobs: int
    #: Ended, or matched: the result of the others is still open.
    settled: int

    @property
    def jobs_per_pilot(self) -> float | None:
        """Return the mean number of jobs of the pilots that had one; None: none had."""
        return self.jobs / self.matched if self.matched else None

    @property
    def efficiency(self) -> float | None:
        """Return the fraction with a job among pilots that have ended or had one, 0 to 1; None: there are none."""
        return self.matched / self.settled if self.settled else None

    @property
    def percentage(self) -> str | None:
        """Return the efficiency as a percentage."""
        return None if self.efficiency is None else f"{self.efficiency:.0%}"


def pilots_seen_by(actor: User) -> QuerySet[Pilot]:
    """Return the pilots of the VOs that the actor manages; for an operator all."""
    return Pilot.objects.all() if actor.is_operator else Pilot.objects.filter(vo__in=VO.objects.managed_by(actor))


def efficiency(pilots: QuerySet[Pilot], *, group_by: Sequence[str], since: datetime) -> Sequence[Efficiency]:
    """Return the efficiency of the pilots submitted since then, by the values of *group_by*, in their order.

    Two statements, for any number of pilots.

    Args:
        pilots: those that the caller may see.
        group_by: names of GROUP_BY, at least one.
        since: beginning of the period.
    """
    columns = [GROUP_BY[name] for name in group_by]
    # Uses index: pilot_submitted_at
    lately = pilots.filter(submitted_at__gt=since).order_by()
    lives = Q(ended_at=None)
    rows = lately.values_list(*columns).annotate(
        submitted=Count("pk"),
        waiting=Count("pk", filter=lives & WAITS),
        stalled=Count("pk", filter=Q(status=PilotStatus.STALLED)),
        running=Count("pk", filter=lives & Q(started_at__isnull=False)),
        matched=Count("pk", filter=Q(matched_at__isnull=False)),
        empty=Count("pk", filter=Q(status=PilotStatus.DONE, matched_at=None)),
        done=Count("pk", filter=Q(status=PilotStatus.DONE)),
        aborted=Count("pk", filter=Q(status=PilotStatus.ABORTED)),
        failed=Count("pk", filter=Q(status=PilotStatus.FAILED)),
        lost=Count("pk", filter=Q(status=PilotStatus.LOST)),
        settled=Count("pk", filter=Q(ended_at__isnull=False) | Q(matched_at__isnull=False)),
    )
    counts = rows.values(*columns, *_COUNTS).order_by(*(F(column).asc(nulls_last=True) for column in columns))
    jobs = _jobs(lately, columns=columns)
    return [
        Efficiency(
            values={name: row[GROUP_BY[name]] for name in group_by},
            jobs=jobs.get(tuple(row[column] for column in columns), 0),
            **{name: row[name] for name in _COUNTS},
        )
        for row in counts
    ]


def total_of(rows: Iterable[Efficiency]) -> Efficiency:
    """Return the sums of these rows, without values."""
    listed = list(rows)
    sums = {name: sum(getattr(row, name) for row in listed) for name in (*_COUNTS, "jobs")}
    return Efficiency(values={}, **sums)


_COUNTS: Final = (
    *("submitted", "waiting", "stalled", "running", "matched", "empty"),
    *("done", "aborted", "failed", "lost", "settled"),
)


def _jobs(pilots: QuerySet[Pilot], *, columns: Sequence[str]) -> Mapping[tuple[str | None, ...], int]:
    """Return the number of leases of the pilots, by the values of *columns*."""
    # Uses index: a_request_of_a_pilot_gets_its_leases_once
    leases = Match.objects.filter(pilot__in=pilots.filter(matched_at__isnull=False).values("pk"))
    places = [f"pilot__{column}" for column in columns]
    return {tuple(values): jobs for *values, jobs in leases.values_list(*places).annotate(Count("pk")).order_by()}
