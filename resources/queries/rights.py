"""Resources that the managers of some VOs may see or change."""

from django.db.models import Exists, OuterRef, QuerySet

from resources.models import RequirementDefinition, Site
from wms.kernel.errors import ForbiddenError


def sites_serving(vos: frozenset[int] | None) -> QuerySet[Site]:
    """Return the sites that serve one of the VOs, including those that serve all; None: all, which operators see."""
    if vos is None:
        return Site.objects.all()
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)) | ~Exists(served))


def sites_serving_only(vos: frozenset[int]) -> QuerySet[Site]:
    """Return the sites that serve only some of the VOs, which the VOs' managers may change."""
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)), ~Exists(served.exclude(vo__in=vos)))


def may_change(site: Site, vos: frozenset[int] | None) -> bool:
    """Return whether the managers of the VOs may change the site; None: an operator, who may change any."""
    return vos is None or (bool(vos) and sites_serving_only(vos).filter(pk=site.pk).exists())


def require_only_managed_vos(site: Site, vos: frozenset[int] | None) -> None:
    """Return if the managers of the VOs may change the site; None: an operator, who may change any.

    Raises:
        ForbiddenError: it also serves other VOs.
    """
    if not may_change(site, vos):
        raise ForbiddenError(f"The site {site.name} also serves VOs that you do not manage; ask an operator.")


def definitions_of_only(vos: frozenset[int]) -> QuerySet[RequirementDefinition]:
    """Return the definitions that apply only to some of the VOs."""
    held = RequirementDefinition.vos.through.objects.filter(requirementdefinition_id=OuterRef("pk"))
    return RequirementDefinition.objects.filter(Exists(held.filter(vo__in=vos)), ~Exists(held.exclude(vo__in=vos)))
