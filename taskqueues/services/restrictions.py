"""What throttles and limits hold back at one moment, for those who look at it without claiming (DESIGN §3.6)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import Protocol

from resources.domain.enums import ThrottlePolicy
from resources.domain.throttles import PATIENCE_S
from resources.models import Site, ThrottleState
from resources.queries.throttles import ThrottleStanding, throttle_in, throttle_of
from taskqueues.domain.limits import LimitScope
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.queries import LimitStanding, full_in_words, limit_standings
from taskqueues.services.classads import SPELLED, as_classad


@dataclass(frozen=True, kw_only=True)
class Closings:
    """The throttles of some sites, and all limits, as they stood at one moment."""

    now: datetime
    #: Those that are throttled, with what is known of each, by primary key.
    sites: Mapping[int, tuple[Site, ThrottleState | None]]
    limits: Sequence[LimitStanding]
    #: About whose jobs the expressions of sites are asked; with owner, group and VO at hand. Read if there are any.
    task_queues: Iterable[TaskQueue]

    @cached_property
    def full_limits(self) -> Sequence[LimitScope]:
        """The limits in which there is no room, with words for it."""
        return [
            replace(standing.scope, words=full_in_words(standing, now=self.now))
            for standing in self.limits
            if standing.bounds.room(now=self.now) == 0
        ]

    @cached_property
    def _standings(self) -> Mapping[int, ThrottleStanding | None]:
        # Each once: a site may have many queues, and an expression that takes long.
        return {pk: throttle_of(site, state, now=self.now) for pk, (site, state) in self.sites.items()}

    def throttle_at(self, site_id: int | None) -> ThrottleStanding | None:
        """Return how the throttle of a site stands; None: it has none, or is not among those that were read."""
        return self._standings.get(site_id or 0)

    def applied(self, offer: ResourceOffer, *, site_id: int | None, ce_id: int | None) -> ResourceOffer:
        """Return the offer with what is closed for it; None: the place is not known, and only wide limits hold."""
        full = tuple(scope for scope in self.full_limits if scope.holds_at(site_id=site_id, ce_id=ce_id))
        throttle = self.throttle_at(site_id)
        if throttle is None:
            return replace(offer, full_limits=full) if full else offer
        return replace(
            offer,
            full_limits=full,
            throttled="" if throttle.accepting else throttle.why_closed.removesuffix("."),
            refused=self.refused_at(site_id),
            refused_by=self._looked_at.get(site_id or 0, ()),
        )

    def refused_at(self, site_id: int | None) -> tuple[int, ...]:
        """Return the task queues, of those that were asked about, of which a site's expression takes no job."""
        return self._refused.get(site_id or 0, ())

    @cached_property
    def _looked_at(self) -> Mapping[int, tuple[str, ...]]:
        """By site whose expression takes no job of some task queue: the attributes of a job at which it looks."""
        refusing = {pk: self.sites[pk] for pk, refused in self._refused.items() if refused}
        return {
            pk: tuple(SPELLED.get(name, name) for name in throttle_in(site, state).asks_of_the_job)
            for pk, (site, state) in refusing.items()
            if state is not None
        }

    @cached_property
    def _refused(self) -> Mapping[int, tuple[int, ...]]:
        """By site: the task queues of which its expression takes no job."""
        asked = {
            pk: (throttle_in(site, state), state.matched)
            for pk, (site, state) in self.sites.items()
            if state is not None and state.room is None and state.expires_at > self.now
        }
        jobs = {row.pk: as_classad(row) for row in self.task_queues} if asked else {}
        return {
            pk: throttle.refused(jobs, matched=matched, is_patient=_patience())
            for pk, (throttle, matched) in asked.items()
        }


def _patience() -> Callable[[], bool]:
    until = monotonic() + PATIENCE_S
    return lambda: monotonic() <= until


class ReadClosings(Protocol):
    """How somebody learns what is closed at sites; they differ in what they count at the moment (``closings_of``)."""

    def __call__(self, sites: Iterable[Site], *, now: datetime, task_queues: Iterable[TaskQueue]) -> Closings:
        """Return what is closed at these sites, by the database's clock."""
        ...


def closings_of(sites: Iterable[Site], *, now: datetime, task_queues: Iterable[TaskQueue]) -> Closings:
    """Return what is closed at these sites, as it is known; what the server would have to count is taken for open.

    Args:
        now: the database's clock.
        task_queues: as of ``Closings``.
    """
    throttled = [site for site in sites if site.throttle_policy != ThrottlePolicy.NONE]
    states = ThrottleState.objects.in_bulk([site.pk for site in throttled]) if throttled else {}
    return Closings(
        now=now,
        sites={site.pk: (site, states.get(site.pk)) for site in throttled},
        limits=limit_standings(),
        task_queues=task_queues,
    )
