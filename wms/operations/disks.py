"""Free space of the volumes on which the server keeps files."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The volume of a directory."""

    path: str
    #: For accounts without special rights.
    free_bytes: int
    total_bytes: int


def disks(paths: Iterable[Path] | None = None) -> Sequence[Disk]:
    """Return the volumes of directories, in their order, each volume once.

    Args:
        paths: directories; None: those of data and of sandboxes. Of one that does not exist yet, the nearest above.

    Raises:
        OSError: a directory cannot be looked at.
    """
    if paths is None:
        paths = (settings.WMS_DATA_DIR, Path(settings.STORAGES["sandboxes"]["OPTIONS"]["location"]))
    volumes: dict[int, Disk] = {}
    for path in paths:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        usage = shutil.disk_usage(there)
        volumes.setdefault(there.stat().st_dev, Disk(path=str(path), free_bytes=usage.free, total_bytes=usage.total))
    return list(volumes.values())
