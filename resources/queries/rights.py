"""Resources that the managers of some VOs may see or change."""

from django.db.models import Exists, OuterRef, QuerySet

from resources.models import RequirementDefinition, Site


def sites_serving(vos: frozenset[int]) -> QuerySet[Site]:
    """Return the sites that serve one of the VOs, including those that serve all."""
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)) | ~Exists(served))


def sites_serving_only(vos: frozenset[int]) -> QuerySet[Site]:
    """Return the sites that serve only some of the VOs, which the VOs' managers may change."""
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)), ~Exists(served.exclude(vo__in=vos)))


def definitions_of_only(vos: frozenset[int]) -> QuerySet[RequirementDefinition]:
    """Return the definitions that apply only to some of the VOs."""
    held = RequirementDefinition.vos.through.objects.filter(requirementdefinition_id=OuterRef("pk"))
    return RequirementDefinition.objects.filter(Exists(held.filter(vo__in=vos)), ~Exists(held.exclude(vo__in=vos)))
