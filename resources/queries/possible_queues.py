"""The possible places of a pilot without a known queue (ADR 27)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from resources.domain.enums import PilotType, ResourceState, ThrottlePolicy
from resources.models import ComputingElement, Queue, Site
from resources.queries.downtimes import PlannedDowntime, downtimes_at, next_downtime
from resources.queries.places import LEVEL_NAMES, ces_of, ids_of, queues_of
from wms.accounts.models import VO
from wms.kernel.memo import UNCACHED, CachedLookups

_PARAMETERS = ("parameters", "vo_parameters")


# Compared by identity, so that results derived from it can be cached.
@dataclass(frozen=True, kw_only=True, eq=False)
class PossiblePlaces:
    """Every queue where the pilot may run, and every CE and site there without a queue.

    A condition on the place is met only if all of them meet it. Without any, nothing is known of the place.
    """

    #: Loaded with CE and site, ordered by primary key.
    queues: Sequence[Queue]
    #: Loaded with its site.
    ces_without_queue: Sequence[ComputingElement]
    sites_without_ce: Sequence[Site]

    @property
    def all_are_queues(self) -> bool:
        """Return whether there are possible places, and all are queues."""
        return bool(self.queues) and not self.ces_without_queue and not self.sites_without_ce

    @cached_property
    def sites(self) -> Mapping[int, Site]:
        """The possible sites by primary key."""
        sites = [queue.ce.site for queue in self.queues]
        sites += [ce.site for ce in self.ces_without_queue]
        return {site.pk: site for site in (*sites, *self.sites_without_ce)}

    @cached_property
    def ces(self) -> Mapping[int, ComputingElement]:
        """The possible computing elements by primary key."""
        return {ce.pk: ce for ce in (*(queue.ce for queue in self.queues), *self.ces_without_queue)}

    @cached_property
    def site_names(self) -> tuple[str, ...]:
        """The names of the possible sites, sorted."""
        return tuple(sorted(site.name for site in self.sites.values()))

    @cached_property
    def ce_names(self) -> tuple[str, ...]:
        """The names of the possible computing elements, sorted; empty if a possible place has none."""
        return () if self.sites_without_ce else tuple(sorted({ce.name for ce in self.ces.values()}))

    @cached_property
    def throttled_sites(self) -> tuple[str, ...]:
        """The names of the possible sites that have a throttle, sorted."""
        return tuple(sorted(site.name for site in self.sites.values() if site.throttle_policy != ThrottlePolicy.NONE))

    @cached_property
    def _closed(self) -> Sequence[Site | ComputingElement | Queue]:
        """The levels whose stored state is banned or draining; it may have ended by the time of a match."""
        levels: list[Site | ComputingElement | Queue] = [*self.sites.values(), *self.ces.values(), *self.queues]
        return [level for level in levels if level.state != ResourceState.ACTIVE]

    def next_downtime(self, *, now: datetime, lookups: CachedLookups = UNCACHED) -> PlannedDowntime | None:
        """Return a downtime that is running at one of the places, else the first to begin; None: none is known."""
        return next_downtime(_downtimes_of_all, self, now=now, lookups=lookups)

    def why_closed(self, *, now: datetime, lookups: CachedLookups = UNCACHED) -> str:
        """Return which of the levels takes no jobs at *now*; empty: all do."""
        for level in self._closed:
            state = level.state_at(now)
            if state is not ResourceState.ACTIVE:
                kind = {Site: "site", ComputingElement: "ce"}.get(type(level), "queue")
                return f"{LEVEL_NAMES[kind]} {level} is {state}"
        downtime = self.next_downtime(now=now, lookups=lookups)
        return downtime.running_in_words if downtime is not None and downtime.is_running(now=now) else ""

    def why_refused(self, pilot_type: PilotType) -> str:
        """Return which computing element does not accept pilots of this type; empty: all do."""
        for ce in self.ces.values():
            if not ce.accepts(pilot_type):
                return f"{LEVEL_NAMES['ce']} {ce} accepts {' and '.join(ce.pilot_types)} pilots only"
        return ""

    def setups_for(self, vo: VO) -> frozenset[str]:
        """Return the setups that pilots of *vo* have at the places, by default that of the VO."""
        chosen = {queue.setup_for(vo) for queue in self.queues} | {ce.setup_for(vo) for ce in self.ces_without_queue}
        if self.sites_without_ce or not chosen:
            chosen.add(None)
        return frozenset(setup or vo.setup for setup in chosen)

    def include(self, *, site_id: int | None, ce_id: int | None) -> bool:
        """Return whether one of the places is at this site and CE; None: at any."""
        if ce_id is None:
            return site_id is None or site_id in self.sites
        ce = self.ces.get(ce_id)
        return ce is not None and site_id in {None, ce.site_id}


def _downtimes_of_all(places: PossiblePlaces) -> Sequence[PlannedDowntime]:
    levels: list[Site | ComputingElement | Queue] = [
        *places.queues,
        *places.ces_without_queue,
        *places.sites_without_ce,
    ]
    return downtimes_at(ids_of(level) for level in levels)


def possible_places(vo: VO, site: str | None, ce: str | None, queue: str | None) -> PossiblePlaces:
    """Return the places with these names at sites that serve *vo*; None: any name."""
    sites, ces, queues = Site.objects.serving(vo), ces_of(vo), queues_of(vo)
    if site is not None:
        sites, ces, queues = sites.filter(name=site), ces.filter(site__name=site), queues.filter(ce__site__name=site)
    if ce is not None:
        sites, ces, queues = sites.none(), ces.filter(name=ce), queues.filter(ce__name=ce)
    if queue is not None:
        sites, ces, queues = sites.none(), ces.none(), queues.filter(name=queue)
    hidden = [f"ce__{name}" for name in _PARAMETERS] + [f"ce__site__{name}" for name in _PARAMETERS]
    rows = queues.select_related("ce__site").defer(*_PARAMETERS, "ce__options", *hidden)
    return PossiblePlaces(
        queues=list(rows.order_by("pk")),
        ces_without_queue=list(ces.filter(queues=None).select_related("site").order_by("pk")),
        sites_without_ce=list(sites.filter(ces=None).order_by("pk")),
    )
