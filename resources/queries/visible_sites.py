"""Sites for pages and endpoints, and the lookup of a site's token."""

from django.db.models import Prefetch, QuerySet

from resources.models import (
    ComputingElement,
    Queue,
    Site,
    SiteToken,
)
from wms.accounts.domain import digest_of
from wms.accounts.models import VO, User
from wms.kernel.clock import current_time


def site_token(token: str) -> SiteToken | None:
    """Return the token's row with its site; None: unknown, revoked or expired, or the site serves other VOs by now."""
    tokens = SiteToken.objects.filter(digest=digest_of(token), revoked_at__isnull=True)
    row = tokens.exclude(expires_at__lte=current_time()).select_related("site").first()
    is_valid = row is not None and (row.vo_ids is None or vos_of_token(row).exists())
    return row if is_valid else None


def vos_of_token(token: SiteToken) -> QuerySet[VO]:
    """Return the VOs for which *token* is valid: those that its site serves now and served when it was made."""
    vos = VO.objects.all() if token.vo_ids is None else VO.objects.filter(pk__in=token.vo_ids)
    return vos.filter(pk__in=token.site.vos.all()) if token.site.vos.exists() else vos


def site_trees(actor: User) -> QuerySet[Site]:
    """Return the sites that the actor may see, each loaded with its CEs and their queues."""
    queues = Prefetch("queues", Queue.objects.order_by("name"))
    ces = Prefetch("ces", ComputingElement.objects.order_by("name").prefetch_related(queues))
    vos = Prefetch("vos", VO.objects.visible_to(actor).order_by("name"))
    return Site.objects.visible_to(actor).prefetch_related(vos, ces)


def site_names(actor: User, *, at_most: int) -> list[str]:
    """Return the names, sorted, of the sites that the actor may see."""
    return list(Site.objects.visible_to(actor).order_by("name").values_list("name", flat=True)[:at_most])


def visible_vos(actor: User, *, vo: str | None = None) -> list[str]:
    """Return the names, sorted, of the VOs that the actor may see, or only of this one of them."""
    visible = VO.objects.visible_to(actor)
    return sorted((visible if vo is None else visible.filter(name=vo)).values_list("name", flat=True))
