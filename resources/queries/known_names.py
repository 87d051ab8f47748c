"""The names that job descriptions and definitions may use: sites, CEs, storage elements, platforms, requirements."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from django.db.models import Q, QuerySet

from resources import sql
from resources.domain.definitions import Definition, MisfitValue, by_folded_name, misfit_values
from resources.domain.enums import RequirementKind
from resources.domain.parameters import LevelParameters
from resources.domain.requirements import Kinds, Units
from resources.models import (
    ComputingElement,
    Platform,
    Queue,
    RequirementDefinition,
    ResourceLevel,
    Site,
    StorageElement,
)
from resources.queries.places import ces_of, queues_of
from wms.accounts.models import VO


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
    """Return every platform that a node may have or run."""
    return sql.platforms()


def known_middlewares(vo: VO) -> frozenset[str]:
    """Return the grid middlewares, case-folded, of the computing elements at the sites that serve *vo*."""
    names = ces_of(vo).values_list("middleware", "type").distinct()
    return frozenset((middleware or type_).casefold() for middleware, type_ in names)


def requirement_names(vo: VO) -> frozenset[str]:
    """Return the names that a job of *vo* may require: those defined, and those of any resource that serves it."""
    names = set(_definitions(vo).values_list("name", flat=True))
    for rows in (Site.objects.serving(vo), ces_of(vo), queues_of(vo)):
        # DISTINCT: a thousand queues of the same kind have equal parameters.
        for general, by_vo in rows.values_list("parameters", "vo_parameters").distinct():
            level = LevelParameters.read(general, by_vo, vo=vo.name)
            names.update(level.general, level.of_vo)
    return frozenset(names)


def requirement_kinds(vo: VO) -> Kinds:
    """Return the kinds of comparison of the names defined for *vo*, by case-folded name."""
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
    """Yield the values of resources that *definition* does not allow, each with its place in words."""
    by_name = by_folded_name([definition])
    sites = {site.pk: site for site in Site.objects.prefetch_related("vos").order_by("name")}
    served = {pk: [vo.name for vo in site.vos.all()] for pk, site in sites.items()}
    ces = {ce.pk: ce for ce in ComputingElement.objects.defer("options").order_by("site__name", "name")}
    places: Iterable[tuple[str, int, ResourceLevel]] = chain(
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
    """Return, sorted, the platforms of jobs that run on nodes of any of these platforms; each also runs its own."""
    nodes = frozenset(platforms)
    runs = Platform.objects.filter(name__in=nodes).values_list("runs", flat=True)
    return tuple(sorted(nodes.union(*runs)))


def _definitions(vo: VO) -> QuerySet[RequirementDefinition]:
    return RequirementDefinition.objects.filter(Q(vos__isnull=True) | Q(vos=vo))
