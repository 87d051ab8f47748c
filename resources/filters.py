"""Filters of the lists of sites, of downtimes and of replicas."""

from django_filters import FilterSet

from resources.domain.files import canonical_lfn
from resources.models import ReplicaQuerySet, SiteQuerySet
from wms.accounts.models import VO
from wms.kernel.filters import NameFilter, ZonedTimeFilter
from wms.wire.protocol import MAX_LFN


class SiteFilterSet(FilterSet):
    """Filters of sites."""

    vo = NameFilter(
        max_length=64,
        method="serving",
        help_text="Name of a VO: only sites that serve it, with its parameters; left out: all sites of the "
        "caller's VOs.",
    )

    def serving(self, sites: SiteQuerySet, _: str, vo_name: str) -> SiteQuerySet:
        """Return the sites that serve the VO; none if the caller may not see the VO."""
        vo = VO.objects.visible_to(self.request.user).filter(name=vo_name).first()
        return sites.none() if vo is None else sites.serving(vo)


class DowntimeFilterSet(FilterSet):
    """Filters of downtimes."""

    site = NameFilter("site__name", max_length=128, help_text="Exact name of the site.")
    since = ZonedTimeFilter(
        "ends_at",
        lookup_expr="gt",
        help_text="Time in RFC 3339 with a zone: those that ended after it too; they are kept for 90 days.",
    )


class ReplicaFilterSet(FilterSet):
    """Filters of replicas."""

    vo = NameFilter("vo__name", max_length=64, help_text="Exact name of the VO.")
    lfn = NameFilter(max_length=MAX_LFN, method="of_file", help_text="Exact logical file name.")
    directory = NameFilter(
        max_length=MAX_LFN,
        method="below",
        help_text="Directory of the files, with its subdirectories, such as /lhcb/user.",
    )
    storage_element = NameFilter(
        "storage_element__name", max_length=128, help_text="Exact name of the storage element."
    )

    def of_file(self, replicas: ReplicaQuerySet, _: str, lfn: str) -> ReplicaQuerySet:
        """Return the copies of the file."""
        return replicas.filter(lfn=canonical_lfn(lfn))

    def below(self, replicas: ReplicaQuerySet, _: str, directory: str) -> ReplicaQuerySet:
        """Return the copies of the files in the directory."""
        return replicas.filter(lfn__startswith=f"{canonical_lfn(directory).rstrip('/')}/")
