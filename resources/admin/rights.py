"""Which resources belong to the managers of some VOs."""

from django.db.models import Exists, OuterRef, QuerySet

from resources.models import RequirementDefinition, Site


def sites_serving(vos: frozenset[int]) -> QuerySet[Site]:
    """Return the sites that serve one of the VOs, among them those that serve all."""
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)) | ~Exists(served))


def sites_serving_only(vos: frozenset[int]) -> QuerySet[Site]:
    """Return the sites that serve some of the VOs and no other: those that the VOs' managers change."""
    served = Site.vos.through.objects.filter(site_id=OuterRef("pk"))
    return Site.objects.filter(Exists(served.filter(vo__in=vos)), ~Exists(served.exclude(vo__in=vos)))


def definitions_of_only(vos: frozenset[int]) -> QuerySet[RequirementDefinition]:
    """Return the definitions that hold for some of the VOs and for no other."""
    held = RequirementDefinition.vos.through.objects.filter(requirementdefinition_id=OuterRef("pk"))
    return RequirementDefinition.objects.filter(Exists(held.filter(vo__in=vos)), ~Exists(held.exclude(vo__in=vos)))
