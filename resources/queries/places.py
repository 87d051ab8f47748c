"""Sites, computing elements and queues: lookup by name, descriptions in words, and whether they take jobs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from django.db.models import Q, QuerySet

from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, ResourceLevel, Site
from resources.queries.downtimes import PlaceIds, PlannedDowntime, changes_of_downtimes, downtimes_at, next_downtime
from wms.accounts.models import VO
from wms.kernel.errors import NotFoundError, RejectedError
from wms.kernel.memo import UNCACHED, CachedLookups
from wms.kernel.names import did_you_mean
from wms.wire.protocol import UNKNOWN_PLACE

_PARAMETERS = ("parameters", "vo_parameters")
RowT = TypeVar("RowT", Site, ComputingElement, Queue)
LEVEL_NAMES: Mapping[str, str] = MappingProxyType({"site": "site", "ce": "computing element", "queue": "queue"})


def ces_of(vo: VO) -> QuerySet[ComputingElement]:
    """Return the computing elements at the sites that serve *vo*."""
    return ComputingElement.objects.filter(site__in=Site.objects.serving(vo))


def queues_of(vo: VO) -> QuerySet[Queue]:
    """Return the queues at the sites that serve *vo*."""
    return Queue.objects.filter(ce__site__in=Site.objects.serving(vo))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPlace:
    """A site, computing element or queue that is set to banned or draining."""

    #: Primary keys of its site, CE and queue; None further inwards.
    ids: tuple[int, int | None, int | None]
    #: Names of the same.
    names: tuple[str, ...]
    state: ResourceState
    reason: str
    #: End of the state; None: not planned.
    until: datetime | None
    #: VOs that the site serves; empty: all.
    vo_ids: frozenset[int]

    @property
    def outer_ids(self) -> Sequence[tuple[int | None, ...]]:
        """The ids, as of ``ids``, of the levels around it."""
        level = len(self.names)
        return [(*self.ids[:number], *[None] * (len(self.ids) - number)) for number in range(1, level)]

    def is_closed(self, *, now: datetime) -> bool:
        """Return whether it gives no jobs at *now*."""
        return self.until is None or self.until > now

    def serves_one_of(self, vo_ids: AbstractSet[int] | None) -> bool:
        """Return whether the site serves one of these VOs; None: of all."""
        return vo_ids is None or (bool(vo_ids) and (not self.vo_ids or not self.vo_ids.isdisjoint(vo_ids)))


def closed_places() -> list[ClosedPlace]:
    """Return the places that are set to banned or draining, the sites first, by name; for some, that may have ended."""
    closed = ~Q(state=ResourceState.ACTIVE)
    kinds = [rows.filter(closed).values("pk") for rows in (Site.objects, ComputingElement.objects, Queue.objects)]
    if not kinds[0].union(*kinds[1:], all=True)[:1]:
        return []
    sites = Site.objects.filter(closed).order_by("name").defer(*_PARAMETERS)
    ces = ComputingElement.objects.filter(closed).select_related("site").order_by("site__name", "name")
    queues = Queue.objects.filter(closed).select_related("ce__site").order_by("ce__site__name", "ce__name", "name")
    levels: list[Site | ComputingElement | Queue] = [
        *sites,
        *ces.defer("options", *_PARAMETERS),
        *queues.defer(*_PARAMETERS),
    ]
    chains = [_outwards(level) for level in levels]
    vos_of: defaultdict[int, set[int]] = defaultdict(set)
    for site_id, vo_id in Site.vos.through.objects.filter(site__in={chain["site"].pk for chain in chains}).values_list(
        "site_id", "vo_id"
    ):
        vos_of[site_id].add(vo_id)
    return [
        _closed_place(level, chain, vo_ids=frozenset(sorted(vos_of[chain["site"].pk])))
        for level, chain in zip(levels, chains, strict=True)
    ]


def _closed_place(
    level: ResourceLevel, chain: Mapping[str, Site | ComputingElement | Queue], *, vo_ids: frozenset[int]
) -> ClosedPlace:
    ids = {kind: row.pk for kind, row in chain.items()}
    return ClosedPlace(
        ids=(ids["site"], ids.get("ce"), ids.get("queue")),
        names=tuple(row.name for row in chain.values()),
        state=ResourceState(level.state),
        reason=level.state_reason,
        until=level.state_until,
        vo_ids=vo_ids,
    )


def ends_of_states() -> tuple[datetime, ...]:
    """Return the planned ends of bans, drains and pauses of VOs, and the begins and ends of downtimes, in their order.

    Past ones too.
    """
    states = [
        end
        for rows in (Site.objects.all(), ComputingElement.objects.all(), Queue.objects.all())
        for end in rows.exclude(state=ResourceState.ACTIVE).values_list("state_until", flat=True)
    ]
    pauses = [end for ends in VO.objects.values_list("paused_until", "all_paused_until") for end in ends]
    return tuple(sorted(end for end in (*states, *pauses, *changes_of_downtimes()) if end is not None))


class UnknownPlaceError(RejectedError):
    """The VO is served by no site, computing element or queue of this name."""

    code = UNKNOWN_PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePlace:
    """The place of a pilot; None for levels that are not named, or whose name is ambiguous."""

    site: Site | None = None
    ce: ComputingElement | None = None
    queue: Queue | None = None

    @property
    def innermost(self) -> Site | ComputingElement | Queue | None:
        """Return the innermost known level."""
        return self.queue or self.ce or self.site

    @property
    def its_site(self) -> Site | None:
        """Return the site of the innermost known level."""
        match self.innermost:
            case Queue() as queue:
                return queue.ce.site
            case ComputingElement() as ce:
                return ce.site
            case site:
                return site

    def setup_for(self, vo: VO) -> str | None:
        """Return the setup of pilots of *vo* there; None: the place does not choose it."""
        level = self.queue or self.ce
        return None if level is None else level.setup_for(vo)

    @property
    def ids(self) -> PlaceIds:
        """Return the primary keys of site, CE and queue of the innermost known level; None further inwards."""
        return (None, None, None) if self.innermost is None else ids_of(self.innermost)


def resolve_place(vo: VO, *, site: str | None = None, ce: str | None = None, queue: str | None = None) -> ResourcePlace:
    """Return the rows for the names that a pilot or a preview gives; None leaves a level open.

    A CE without its site, or a queue without its CE, is returned only if its name is unique.

    Raises:
        UnknownPlaceError: with errors of ``site``, ``ce`` or ``queue`` and the nearest known name.
    """
    sites, ces, queues = Site.objects.serving(vo), ces_of(vo), queues_of(vo)
    site_row = ce_row = queue_row = None
    if site is not None:
        (site_row,) = _named("site", site, sites)
        ces, queues = ces.filter(site=site_row), queues.filter(ce__site=site_row)
    if ce is not None:
        named = _named("ce", ce, ces.select_related("site"))
        ce_row, queues = _only(named), queues.filter(ce__in=named)
    if queue is not None:
        queue_row = _only(_named("queue", queue, queues.select_related("ce__site")))
    return ResourcePlace(site=site_row, ce=ce_row, queue=queue_row)


def queues_at_hand(vo: VO) -> list[Queue]:
    """Return every queue at the sites that serve *vo*, by site, CE and name; without parameters.

    CEs and sites are loaded too. Three statements: a join would create the object of a site anew for each of its
    queues.
    """
    sites = {site.pk: site for site in Site.objects.serving(vo).defer(*_PARAMETERS)}
    ces = {ce.pk: ce for ce in ces_of(vo).defer("options", *_PARAMETERS) if ce.site_id in sites}
    for ce in ces.values():
        ce.site = sites[ce.site_id]
    # Rows created between the statements are left out.
    queues = [queue for queue in queues_of(vo).defer(*_PARAMETERS) if queue.ce_id in ces]
    for queue in queues:
        queue.ce = ces[queue.ce_id]
    return sorted(queues, key=lambda queue: (queue.ce.site.name, queue.ce.name, queue.name))


def place_in_words(queue_id: int, *, host: str | None = None, lookups: CachedLookups = UNCACHED) -> str:
    """Return words such as "LCG.CERN.ch/ce01/grid" or "node7 of LCG.CERN.ch/ce01/grid", also for a deleted queue."""
    queue = lookups.get(_with_site, queue_id)
    name = "a queue that is no longer configured" if queue is None else f"{queue.ce.site}/{queue.ce}/{queue}"
    return f"{host} of {name}" if host else name


def _with_site(queue_id: int) -> Queue | None:
    return Queue.objects.select_related("ce__site").filter(pk=queue_id).first()


def _named(field: str, name: str, rows: QuerySet[RowT]) -> list[RowT]:
    matching = list(rows.filter(name=name))
    if not matching:
        hint = did_you_mean(name, sorted(rows.values_list("name", flat=True).distinct()))
        sentence = f'No {LEVEL_NAMES[field]} that serves your VO is called "{name}" here.{hint}'
        raise UnknownPlaceError(sentence, errors={field: [sentence]})
    return matching


def _only(rows: list[RowT]) -> RowT | None:
    return rows[0] if len(rows) == 1 else None


def serves(site: Site, vo: VO) -> bool:
    """Return whether *site* serves *vo*."""
    return Site.objects.serving(vo).filter(pk=site.pk).exists()


def site_of(level: ResourceLevel) -> Site:
    """Return the site of a level, already loaded."""
    if isinstance(level, Queue):
        return level.ce.site
    if isinstance(level, ComputingElement):
        return level.site
    if isinstance(level, Site):
        return level
    raise TypeError(f"{level} is not a site, computing element or queue")


def level_at(site: Site, *, ce: str = "", queue: str = "") -> Site | ComputingElement | Queue:
    """Return the site, its CE of this name, or the queue of this name at the CE; an empty name leaves a level out.

    Raises:
        NotFoundError: the site has no such CE, or the CE no such queue.
    """
    if not ce and not queue:
        return site
    if not queue:
        of_site = ComputingElement.objects.select_related("site").filter(site=site, name=ce).first()
        if of_site is None:
            raise NotFoundError(f"The site {site} has no computing element of this name.")
        return of_site
    of_ce = Queue.objects.select_related("ce__site").filter(ce__site=site, ce__name=ce, name=queue).first()
    if of_ce is None:
        raise NotFoundError(f"The site {site} has no computing element and queue of these names.")
    return of_ce


def why_closed(
    level: Site | ComputingElement | Queue, *, vo: VO, now: datetime, lookups: CachedLookups = UNCACHED
) -> str:
    """Return why *level* gives no jobs to pilots of *vo* at *now*; empty: it gives jobs.

    Matching for the VO must not be paused, the level and all outer ones must be active and not in downtime, and the
    site must serve the VO.
    """
    if paused := vo.why_paused(now):
        return paused
    chain = _outwards(level)
    for kind, row in chain.items():
        if row.state_at(now) is not ResourceState.ACTIVE:
            until = f" until {row.state_until:%Y-%m-%d %H:%M %Z}" if row.state_until else ""
            # A part of other sentences, which add their own full stop.
            reason = f": {row.state_reason.rstrip(' .')}" if row.state_reason else ""
            return f"{LEVEL_NAMES[kind]} {row} is {row.state}{until}{reason}"
    downtime = downtime_of(level, now=now, lookups=lookups)
    if downtime is not None and downtime.is_running(now=now):
        return downtime.running_in_words
    site = chain["site"]
    if not lookups.get(serves, site, vo):
        return f"site {site} does not serve {vo}"
    return ""


def accepting(
    level: Site | ComputingElement | Queue, *, vo: VO, now: datetime, lookups: CachedLookups = UNCACHED
) -> bool:
    """Return whether *level* gives jobs to pilots of *vo* at *now*."""
    return not why_closed(level, vo=vo, now=now, lookups=lookups)


def downtime_of(
    level: Site | ComputingElement | Queue, *, now: datetime, lookups: CachedLookups = UNCACHED
) -> PlannedDowntime | None:
    """Return the downtime that is running at a level or around it, else the next one; None: none is known."""
    return next_downtime(_downtimes_of, ids_of(level), now=now, lookups=lookups)


def _downtimes_of(ids: PlaceIds) -> Sequence[PlannedDowntime]:
    return downtimes_at([ids])


def ids_of(level: Site | ComputingElement | Queue) -> PlaceIds:
    """Return the primary keys of site, CE and queue of a level; None further inwards."""
    chain = _outwards(level)
    site, ce, queue = (chain[name].pk if name in chain else None for name in LEVEL_NAMES)
    return site, ce, queue


def _outwards(level: Site | ComputingElement | Queue) -> dict[str, Site | ComputingElement | Queue]:
    match level:
        case Queue():
            return {"site": level.ce.site, "ce": level.ce, "queue": level}
        case ComputingElement():
            return {"site": level.site, "ce": level}
        case _:
            return {"site": level}
