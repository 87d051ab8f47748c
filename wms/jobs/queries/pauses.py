"""The pause of matching for all VOs, and the jobs that it concerns."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from taskqueues.services.consequences import jobs_in_words
from wms.accounts.models import VO
from wms.jobs.models import CurrentJobCount
from wms.jobs.queries.amounts import sums_of_leased_and_waiting
from wms.kernel.consequences import Consequence


def of_pause(vos: QuerySet[VO], *, whose: str) -> Consequence:
    """Return what a pause of the VOs stops: all that wait, as their jobs run nowhere else either.

    Args:
        vos: whose matching is paused.
        whose: these, in words.
    """
    running, waiting = jobs_of(vos)
    extent = f"{jobs_in_words(waiting, 'wait')}; running jobs go on: {running:,}."
    return Consequence(sentence=f"No job of {whose} starts while it lasts.", extent=extent, is_felt=bool(waiting))


def jobs_of(vos: QuerySet[VO]) -> tuple[int, int]:
    """Return the numbers of jobs of the VOs that pilots hold, and that wait, are held or checked."""
    return sums_of_leased_and_waiting(CurrentJobCount.objects.filter(vo__in=vos))


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseOfAll:
    """The pause of all VOs, and what there is to be paused."""

    #: None: none is in force.
    until: datetime | None
    reason: str
    vos: int
    #: VOs with a pause of their own in force.
    own_pauses: int
    waiting_jobs: int
    running_jobs: int

    @property
    def paused(self) -> bool:
        """Return whether it is in force."""
        return self.until is not None


def pause_of_all(*, now: datetime) -> PauseOfAll:
    """Return the pause of all VOs at *now*; VOs that have been added meanwhile are not paused."""
    vos = list(VO.objects.order_by("pk"))
    pauses = [(vo.all_paused_until, vo.all_pause_reason) for vo in vos if vo.all_paused_until is not None]
    until, reason = max(((until, reason) for until, reason in pauses if until > now), default=(None, ""))
    running, waiting = sums_of_leased_and_waiting(CurrentJobCount.objects.all())
    return PauseOfAll(
        until=until,
        reason=reason,
        vos=len(vos),
        own_pauses=sum(vo.paused_until is not None and vo.paused_until > now for vo in vos),
        waiting_jobs=waiting,
        running_jobs=running,
    )
