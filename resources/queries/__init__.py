"""Reads of what is configured: known names, what is eligible for whom, places and whether they take jobs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from resources import sql
from resources.domain.definitions import Definition, MisfitValue, by_folded_name, misfit_values
from resources.domain.eligibility import Supply
from resources.domain.parameters import LevelParameters
from resources.domain.requirements import Kinds, Units, canonical
from resources.domain.words import RequirementKind, ResourceState
from resources.models import (
    ComputingElement,
    Level,
    Platform,
    Queue,
    RequirementDefinition,
    Site,
    SiteToken,
    StorageElement,
)
from resources.queries.described import Described, IneligibleQueue, Tree, described
from wms.accounts.domain import digest_of
from wms.accounts.models import VO, User
from wms.kernel.errors import RejectedError
from wms.kernel.memo import FORGETFUL, Remembered
from wms.kernel.names import did_you_mean

# ---- Known names -----------------------------------------------------------------------------------------------------


def known_sites(vo: VO) -> frozenset[str]:
    """Return the names of the sites that serve *vo*."""
    return sql.names_of_sites(vo_id=vo.pk)


def known_ces(vo: VO) -> frozenset[str]:
    """Return the names of the computing elements at the sites that serve *vo*."""
    return frozenset(ces_of(vo).values_list("name", flat=True))


def known_elements(vo: VO) -> frozenset[str]:
    """Return the names of the storage elements that serve *vo*."""
    return frozenset(StorageElement.objects.serving(vo.pk).values_list("name", flat=True))


def known_platforms() -> frozenset[str]:
    """Return every platform that a node may have, or that one may run."""
    return sql.platforms()


def known_middlewares(vo: VO) -> frozenset[str]:
    """Return the grid middlewares, case-folded, of the computing elements at the sites that serve *vo*."""
    names = ces_of(vo).values_list("middleware", "type").distinct()
    return frozenset((middleware or type_).casefold() for middleware, type_ in names)


def requirement_names(vo: VO) -> frozenset[str]:
    """Return the names that a job of *vo* may require: defined, or carried by any resource that serves it."""
    names = set(_definitions(vo).values_list("name", flat=True))
    for rows in (Site.objects.serving(vo), ces_of(vo), queues_of(vo)):
        # DISTINCT: a thousand queues of the same kind say the same.
        for general, by_vo in rows.values_list("parameters", "vo_parameters").distinct():
            level = LevelParameters.read(general, by_vo, vo=vo.name)
            names.update(level.general, level.of_vo)
    return frozenset(names)


def requirement_kinds(vo: VO) -> Kinds:
    """Return how the names defined for *vo* are compared, by case-folded name."""
    return {name.casefold(): RequirementKind(kind) for name, kind in _definitions(vo).values_list("name", "kind")}


def requirement_units(vo: VO) -> Units:
    """Return the units of the names defined for *vo* that have one, by case-folded name."""
    return {name.casefold(): unit for name, unit in _definitions(vo).exclude(unit="").values_list("name", "unit")}


def definitions() -> list[Definition]:
    """Return all definitions, of every VO, by name."""
    rows = RequirementDefinition.objects.prefetch_related("vos").order_by("name")
    return [
        Definition(
            name=row.name,
            kind=RequirementKind(row.kind),
            unit=row.unit,
            vos=frozenset(vo.name for vo in row.vos.all()),
        )
        for row in rows
    ]


def misfits_of(definition: Definition) -> Iterator[tuple[str, MisfitValue]]:
    """Yield the values of resources that *definition* does not allow, each with the words for its place."""
    by_name = by_folded_name([definition])
    sites = {site.pk: site for site in Site.objects.prefetch_related("vos").order_by("name")}
    served = {pk: [vo.name for vo in site.vos.all()] for pk, site in sites.items()}
    ces = {ce.pk: ce for ce in ComputingElement.objects.defer("options").order_by("site__name", "name")}
    places: Iterable[tuple[str, int, Level]] = chain(
        ((f"site {site.name}", pk, site) for pk, site in sites.items()),
        ((f"ce {sites[ce.site_id].name}/{ce.name}", ce.site_id, ce) for ce in ces.values() if ce.site_id in sites),
        (
            (f"queue {sites[ces[queue.ce_id].site_id].name}/{ces[queue.ce_id].name}/{queue.name}", site_id, queue)
            for queue in Queue.objects.order_by("ce__site__name", "ce__name", "name")
            if queue.ce_id in ces and (site_id := ces[queue.ce_id].site_id) in sites
        ),
    )
    for place, site_id, level in places:
        parameters = LevelParameters.read(level.parameters, {}, vo=None).general
        by_vo = level.vo_parameters if isinstance(level.vo_parameters, Mapping) else {}
        for misfit in misfit_values(parameters, by_vo, serves=served[site_id], definitions=by_name):
            yield place, misfit


def compatible_platforms(platforms: Iterable[str]) -> tuple[str, ...]:
    """Return, sorted, the platforms of jobs that run on nodes of any of these platforms; each runs its own."""
    nodes = frozenset(platforms)
    runs = Platform.objects.filter(name__in=nodes).values_list("runs", flat=True)
    return tuple(sorted(nodes.union(*runs)))


def _definitions(vo: VO) -> QuerySet[RequirementDefinition]:
    return RequirementDefinition.objects.filter(Q(vos__isnull=True) | Q(vos=vo))


def ces_of(vo: VO) -> QuerySet[ComputingElement]:
    """Return the computing elements at the sites that serve *vo*."""
    return ComputingElement.objects.filter(site__in=Site.objects.serving(vo))


def queues_of(vo: VO) -> QuerySet[Queue]:
    """Return the queues at the sites that serve *vo*."""
    return Queue.objects.filter(ce__site__in=Site.objects.serving(vo))


# ---- What is eligible ------------------------------------------------------------------------------------------------


def supply_of(vo: VO) -> Supply:
    """Return the queues that serve *vo*, for who has many requirements to compare with them."""
    return _described(vo).supply


def eligible_queues(vo: VO, requirements: Mapping[str, object]) -> Tree:
    """Return the queues that serve *vo* and meet *requirements*, as site > CE > queues, sorted by name.

    Whether they take jobs at the moment is another question: a ban passes, eligibility is a fact of the resource.

    Raises:
        RequirementsError: they are no record of values.

    Source: RFC7, "a tree structure ( nested dictionaries ) is returned starting from the Site level".
    """
    return _described(vo).tree(canonical(requirements))


def ineligible_queues(vo: VO, requirements: Mapping[str, object], *, at_most: int) -> list[IneligibleQueue]:
    """Return the other queues that serve *vo*, each with what it does not meet; those that miss the fewest first.

    Raises:
        RequirementsError: they are no record of values.
    """
    return _described(vo).ineligible(canonical(requirements), at_most=at_most)


def _described(vo: VO) -> Described:
    told = sql.sayings(vo_id=vo.pk, vo=vo.name)
    return described(told, kinds=tuple(sorted(requirement_kinds(vo).items())))


# ---- Places ----------------------------------------------------------------------------------------------------------


RowT = TypeVar("RowT", Site, ComputingElement, Queue)
#: Long columns that only requirements are compared with.
_PARAMETERS = ("parameters", "vo_parameters")
LEVEL_NAMES: Mapping[str, str] = MappingProxyType({"site": "site", "ce": "computing element", "queue": "queue"})


class UnknownPlaceError(RejectedError):
    """No site, computing element or queue that serves the VO has this name."""

    code = "unknown_place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pilot runs, as far as it said; None: it did not, or several have that name."""

    site: Site | None = None
    ce: ComputingElement | None = None
    queue: Queue | None = None

    @property
    def innermost(self) -> Site | ComputingElement | Queue | None:
        """The most exact level that is known."""
        return self.queue or self.ce or self.site

    @property
    def its_site(self) -> Site | None:
        """The site of the innermost level that is known."""
        match self.innermost:
            case Queue() as queue:
                return queue.ce.site
            case ComputingElement() as ce:
                return ce.site
            case site:
                return site

    @property
    def ids(self) -> tuple[int | None, int | None, int | None]:
        """Primary keys of the site, CE and queue of the innermost level that is known; None further inwards."""
        levels = {} if self.innermost is None else _outwards(self.innermost)
        site, ce, queue = (levels[name].pk if name in levels else None for name in LEVEL_NAMES)
        return site, ce, queue


def resolve_place(vo: VO, *, site: str | None = None, ce: str | None = None, queue: str | None = None) -> Place:
    """Return the rows of the names that a pilot or a preview gives; None leaves a level open.

    A CE without its site, or a queue without its CE, is found when only one has that name.

    Raises:
        UnknownPlaceError: field errors on ``site``, ``ce`` or ``queue``, with the nearest known name.
    """
    sites, ces, queues = Site.objects.serving(vo), ces_of(vo), queues_of(vo)
    found_site = found_ce = found_queue = None
    if site is not None:
        (found_site,) = _named("site", site, sites)
        ces, queues = ces.filter(site=found_site), queues.filter(ce__site=found_site)
    if ce is not None:
        named = _named("ce", ce, ces.select_related("site"))
        found_ce, queues = _only(named), queues.filter(ce__in=named)
    if queue is not None:
        found_queue = _only(_named("queue", queue, queues.select_related("ce__site")))
    return Place(site=found_site, ce=found_ce, queue=found_queue)


def queues_at_hand(vo: VO) -> list[Queue]:
    """Return every queue at the sites that serve *vo*, by site, CE and name; without their parameters.

    CEs and sites are at hand. Three statements: a join would make the row of a site anew for each of its queues.
    """
    sites = {site.pk: site for site in Site.objects.serving(vo).defer(*_PARAMETERS)}
    ces = {ce.pk: ce for ce in ces_of(vo).defer("options", *_PARAMETERS) if ce.site_id in sites}
    for ce in ces.values():
        ce.site = sites[ce.site_id]
    # What came between the statements is left out.
    queues = [queue for queue in queues_of(vo).defer(*_PARAMETERS) if queue.ce_id in ces]
    for queue in queues:
        queue.ce = ces[queue.ce_id]
    return sorted(queues, key=lambda queue: (queue.ce.site.name, queue.ce.name, queue.name))


def place_in_words(queue_id: int, *, host: str | None = None) -> str:
    """Return such as "LCG.CERN.ch/ce01/grid", or "node7 of LCG.CERN.ch/ce01/grid"; a queue that is gone is told so."""
    queue = Queue.objects.select_related("ce__site").filter(pk=queue_id).first()
    name = "a queue that is no longer configured" if queue is None else f"{queue.ce.site}/{queue.ce}/{queue}"
    return f"{host} of {name}" if host else name


def _named(field: str, name: str, rows: QuerySet[RowT]) -> list[RowT]:
    found = list(rows.filter(name=name))
    if not found:
        hint = did_you_mean(name, sorted(rows.values_list("name", flat=True).distinct()))
        sentence = f'No {LEVEL_NAMES[field]} that serves your VO is called "{name}" here.{hint}'
        raise UnknownPlaceError(sentence, errors={field: [sentence]})
    return found


def _only(rows: list[RowT]) -> RowT | None:
    return rows[0] if len(rows) == 1 else None


def serves(site: Site, vo: VO) -> bool:
    """Return whether *site* serves *vo*."""
    return Site.objects.serving(vo).filter(pk=site.pk).exists()


def why_closed(level: Site | ComputingElement | Queue, *, vo: VO, now: datetime, known: Remembered = FORGETFUL) -> str:
    """Return why *level* gives jobs to no pilot of *vo* at *now*; empty: it does.

    All levels from it outwards must be active, and the site must serve the VO.
    """
    chain = _outwards(level)
    for kind, row in chain.items():
        if row.state_at(now) is not ResourceState.ACTIVE:
            until = f" until {row.state_until:%Y-%m-%d %H:%M %Z}" if row.state_until else ""
            # A part of other sentences, which have full stops of their own.
            reason = f": {row.state_reason.rstrip(' .')}" if row.state_reason else ""
            return f"{LEVEL_NAMES[kind]} {row} is {row.state}{until}{reason}"
    site = chain["site"]
    if not known.ask(serves, site, vo):
        return f"site {site} does not serve {vo}"
    return ""


def accepting(level: Site | ComputingElement | Queue, *, vo: VO, now: datetime, known: Remembered = FORGETFUL) -> bool:
    """Return whether *level* gives jobs to pilots of *vo* at *now*."""
    return not why_closed(level, vo=vo, now=now, known=known)


def _outwards(level: Site | ComputingElement | Queue) -> dict[str, Site | ComputingElement | Queue]:
    match level:
        case Queue():
            return {"site": level.ce.site, "ce": level.ce, "queue": level}
        case ComputingElement():
            return {"site": level.site, "ce": level}
        case _:
            return {"site": level}


def site_token(token: str) -> SiteToken | None:
    """Return the row of a site's token with its site, or None if it is unknown or revoked."""
    tokens = SiteToken.objects.filter(digest=digest_of(token), revoked_at__isnull=True)
    return tokens.exclude(expires_at__lte=timezone.now()).select_related("site").first()


# ---- Screens ---------------------------------------------------------------------------------------------------------


def site_trees(actor: User) -> QuerySet[Site]:
    """Return the sites that the actor may see, each with its CEs and their queues at hand."""
    queues = Prefetch("queues", Queue.objects.order_by("name"))
    ces = Prefetch("ces", ComputingElement.objects.order_by("name").prefetch_related(queues))
    vos = Prefetch("vos", VO.objects.visible_to(actor).order_by("name"))
    return Site.objects.visible_to(actor).prefetch_related(vos, ces)


def visible_vos(actor: User, *, vo: str | None = None) -> list[str]:
    """Return the names, sorted, of the VOs that the actor may see, or of only this one of them."""
    visible = VO.objects.visible_to(actor)
    return sorted((visible if vo is None else visible.filter(name=vo)).values_list("name", flat=True))
