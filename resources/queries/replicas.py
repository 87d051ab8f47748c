"""Where files are: which storage elements hold them, and which sites these belong to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from resources import sql
from resources.domain.files import url_of
from resources.models import Site, StorageElement


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy of a file, and where it can be read."""

    lfn: str
    url: str
    storage_element_id: int
    storage_element: str
    size_bytes: int | None
    checksum: str


def holders(vo_id: int, lfns: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return {file: ids of the storage elements that hold a copy} of those of the files that have one."""
    return sql.holders(vo_id=vo_id, lfns=lfns)


def element_sites(vo_id: int) -> Mapping[int, frozenset[str]]:
    """Return {id of a storage element: names of its sites that serve the VO}."""
    return sql.sites_of_elements(vo_id=vo_id)


def copies(vo_id: int, lfns: Collection[str]) -> Sequence[Copy]:
    """Return every copy of the files."""
    return [
        Copy(
            lfn=lfn,
            url=url_of(url, lfn),
            storage_element_id=element_id,
            storage_element=name,
            size_bytes=size_bytes,
            checksum=checksum,
        )
        for lfn, element_id, name, url, size_bytes, checksum in sql.copies(vo_id=vo_id, lfns=lfns)
    ]


def elements_of_site(site_id: int) -> Sequence[StorageElement]:
    """Return the storage elements of a site by name."""
    return list(StorageElement.objects.filter(sites=site_id).order_by("name"))


def site_layout() -> bytes:
    """Return a digest of which storage elements belong to which sites, and which VOs these serve.

    Whatever changes it, by whichever page, file or command, changes where jobs with input data may run.
    """
    sites = Site.objects.filter(storage_elements__isnull=False).distinct().prefetch_related("vos", "storage_elements")
    layout = [
        (
            site.name,
            sorted(element.pk for element in site.storage_elements.all()),
            sorted(vo.pk for vo in site.vos.all()),
        )
        for site in sites.order_by("name")
    ]
    return sha256(repr(layout).encode()).digest()
