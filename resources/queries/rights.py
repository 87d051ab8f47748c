"""Resources that managers of VOs and administrators of sites may see or change."""

from django.db.models import Exists, OuterRef, QuerySet

from resources.models import RequirementDefinition, Site
from wms.accounts.models import User
from wms.accounts.queries import is_manager, managed_vos_of
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


def oversees_sites(user: User) -> bool:
    """Return whether *user* oversees sites: as a manager of a VO, as an operator, or as an administrator of a site."""
    return is_manager(user) or Site.objects.administered_by(user).exists()


def sites_overseen_by(user: User) -> QuerySet[Site]:
    """Return the sites whose operation *user* sees: of managed VOs, and administered ones; operators see all."""
    vos, administered = managed_vos_of(user), Site.objects.administered_by(user)
    return sites_serving(vos) | administered if vos is None or vos else administered


def changeable_sites(user: User) -> QuerySet[Site]:
    """Return the sites that *user* may change: those of managed VOs only, and administered ones; operators: all."""
    vos, administered = managed_vos_of(user), Site.objects.administered_by(user)
    if vos is None:
        return Site.objects.all()
    return sites_serving_only(vos) | administered if vos else administered


def may_change(site: Site, user: User) -> bool:
    """Return whether *user* may set states, throttle, downtimes and tokens of the site.

    Its administrators may, whatever VOs it serves; so may managers, if it serves their VOs only, and operators.
    """
    return user.is_operator or changeable_sites(user).filter(pk=site.pk).exists()


def require_may_change(site: Site, user: User) -> None:
    """Return if *user* may change the site (``may_change``).

    Raises:
        ForbiddenError: it also serves other VOs, and the user does not administer it.
    """
    if not may_change(site, user):
        raise ForbiddenError(f"The site {site.name} also serves VOs that you do not manage; ask an operator.")


def require_may_configure(site: Site, user: User) -> None:
    """Return if *user* may set what jobs may require at the site, as its page in the administration.

    Raises:
        ForbiddenError: the user is no operator, and does not manage all VOs that it serves; as its administrator the
            user may set states, throttle, downtimes and tokens.
    """
    vos = managed_vos_of(user)
    if vos is not None and not sites_serving_only(vos).filter(pk=site.pk).exists():
        raise ForbiddenError(f"Only operators and managers of all VOs that the site {site.name} serves may do this.")


def definitions_of_only(vos: frozenset[int]) -> QuerySet[RequirementDefinition]:
    """Return the definitions that apply only to some of the VOs."""
    held = RequirementDefinition.vos.through.objects.filter(requirementdefinition_id=OuterRef("pk"))
    return RequirementDefinition.objects.filter(Exists(held.filter(vo__in=vos)), ~Exists(held.exclude(vo__in=vos)))
