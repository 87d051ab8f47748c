"""Replicas of files: the storage elements that hold them, and the sites of these."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from resources import sql
from resources.domain.files import url_of
from resources.models import Site, StorageElement


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCopy:
    """One replica of a file, and its URL."""

    lfn: str
    url: str
    storage_element_id: int
    storage_element: str
    size_bytes: int | None
    checksum: str


def holders(vo_id: int, lfns: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return {file: ids of the VO's storage elements with a replica}, of the files that have one."""
    return sql.holders(vo_id=vo_id, lfns=lfns)


def element_sites(vo_id: int) -> Mapping[int, frozenset[str]]:
    """Return {id of a storage element of the VO: names of its sites that serve the VO}."""
    return sql.sites_of_elements(vo_id=vo_id)


def copies(vo_id: int, lfns: Collection[str]) -> Sequence[ReplicaCopy]:
    """Return every replica of the files at storage elements that serve the VO."""
    return [
        ReplicaCopy(
            lfn=lfn,
            url=url_of(url, lfn),
            storage_element_id=element_id,
            storage_element=name,
            size_bytes=size_bytes,
            checksum=checksum,
        )
        for lfn, element_id, name, url, size_bytes, checksum in sql.copies(vo_id=vo_id, lfns=lfns)
    ]


def elements_of_site(site_id: int, *, vo_id: int) -> Sequence[StorageElement]:
    """Return the storage elements of a site that serve the VO, by name."""
    return list(StorageElement.objects.serving(vo_id).filter(sites=site_id).order_by("name"))


def site_layout() -> bytes:
    """Return a digest of the sites of all storage elements, and of the VOs that both serve.

    Any change of it, through a page, a file or a command, changes where jobs with input data may run.
    """
    sites = Site.objects.filter(storage_elements__isnull=False)
    elements = StorageElement.objects.filter(sites__isnull=False, vos__isnull=False)
    layout = (
        list(sites.values_list("name", "storage_elements").order_by("name", "storage_elements")),
        list(sites.filter(vos__isnull=False).values_list("name", "vos").distinct().order_by("name", "vos")),
        list(elements.values_list("pk", "vos").distinct().order_by("pk", "vos")),
    )
    return sha256(repr(layout).encode()).digest()
