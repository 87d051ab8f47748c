"""Throttles and limits in force, for readers that do not claim (docs/architecture.md, Throttles and limits)."""

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
    """The throttles of some sites, and all limits, at one moment."""

    now: datetime
    #: {primary key: throttled site, with its state if any}.
    sites: Mapping[int, tuple[Site, ThrottleState | None]]
    limits: Sequence[LimitStanding]
    #: Task queues for which the expressions of sites are evaluated, with owner, group and VO loaded; read if needed.
    task_queues: Iterable[TaskQueue]

    @cached_property
    def full_limits(self) -> Sequence[LimitScope]:
        """Return the limits without room, with their texts."""
        return [
            replace(
                standing.scope,
                words=full_in_words(standing, now=self.now),
                is_closing=standing.is_closing,
            )
            for standing in self.limits
            if standing.bounds.room(now=self.now) == 0
        ]

    @cached_property
    def _standings(self) -> Mapping[int, ThrottleStanding | None]:
        # Each once: a site may have many queues, and an expression that takes long.
        return {pk: throttle_of(site, state, now=self.now) for pk, (site, state) in self.sites.items()}

    def throttle_at(self, site_id: int | None) -> ThrottleStanding | None:
        """Return the state of a site's throttle; None: it has none, or was not read."""
        return self._standings.get(site_id or 0)

    def applied(self, offer: ResourceOffer, *, site_id: int | None, ce_id: int | None) -> ResourceOffer:
        """Return the offer with what is closed for it; site or CE None: unknown, and limits on places do not apply."""
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
        """Return the task queues whose jobs a site's expression refuses, of those evaluated."""
        return self._refused.get(site_id or 0, ())

    @cached_property
    def _looked_at(self) -> Mapping[int, tuple[str, ...]]:
        """By site whose expression refuses some task queue: the job attributes that it uses."""
        refusing = {pk: self.sites[pk] for pk, refused in self._refused.items() if refused}
        return {
            pk: tuple(SPELLED.get(name, name) for name in throttle_in(site, state).asks_of_the_job)
            for pk, (site, state) in refusing.items()
            if state is not None
        }

    @cached_property
    def _refused(self) -> Mapping[int, tuple[int, ...]]:
        """By site: the task queues that its expression refuses."""
        expressions = {
            pk: (throttle_in(site, state, now=self.now), state.matched)
            for pk, (site, state) in self.sites.items()
            if state is not None and state.room is None and state.expires_at > self.now
        }
        jobs = {row.pk: as_classad(row) for row in self.task_queues} if expressions else {}
        return {
            pk: throttle.refused(jobs, matched=matched, is_patient=_patience())
            for pk, (throttle, matched) in expressions.items()
        }


def _patience() -> Callable[[], bool]:
    until = monotonic() + PATIENCE_S
    return lambda: monotonic() <= until


class ReadClosings(Protocol):
    """Signature of functions that return what is closed at sites; they differ in what they count (``closings_of``)."""

    def __call__(self, sites: Iterable[Site], *, now: datetime, task_queues: Iterable[TaskQueue]) -> Closings:
        """Return what is closed at these sites, by the database's clock."""
        ...


def closings_of(sites: Iterable[Site], *, now: datetime, task_queues: Iterable[TaskQueue]) -> Closings:
    """Return what is closed at these sites as stored; throttles that the server would have to count are taken as open.

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
