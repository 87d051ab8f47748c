"""What the site offers on this node: software repositories and scratch directories (PIL §2.1)."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.base.shared_directories import TEMPORARY, TMP
from pilots.agent.server.json_fields import Record

#: How batch systems and sites name the scratch directory of a job: first those that are made for the job and removed
#: after it, then those of the site.
SCRATCH = (
    "_CONDOR_SCRATCH_DIR",
    "SLURM_TMPDIR",
    "TMPDIR",
    "OSG_WN_TMP",
    "WN_SCRATCH",
    "SCRATCH",
)
#: A pilot with less could not even take its own output along (the server's min_free_disk_mb is not known yet).
ENOUGH_MB = 500.0
#: A site has a few dozens; the server keeps a report of limited size.
_MOST_REPOSITORIES = 50
_MB = 1024**2
#: Work directory of pilots that are root, where theirs is closed to their payloads.
_OF_ROOT = "wms-work"


@dataclass(frozen=True)
class Scratch:
    """A directory where jobs could run."""

    path: Path
    #: Of the environment; empty: everybody's.
    variable: str
    free_mb: float
    #: None: it can be used.
    flaw: str | None

    def as_record(self) -> Record:
        """Return it as the server reads it."""
        told = {"variable": self.variable, "path": str(self.path)[:255], "free_mb": round(self.free_mb)}
        return {**told, "flaw": self.flaw}


def repositories(root: Path, *, mounts: str) -> Sequence[str]:
    """Return the CVMFS repositories that are mounted, or that were mounted on demand.

    Args:
        root: /cvmfs.
        mounts: content of /proc/self/mounts.
    """
    places = {words[1] for words in map(str.split, mounts.splitlines()) if len(words) > 1}
    mounted = {place[len(f"{root}/") :].partition("/")[0] for place in places if place.startswith(f"{root}/")}
    try:
        listed = {name for name in os.listdir(root) if "." in name}  # noqa: PTH208 - Path would look at each
    except OSError:
        listed = set()
    return sorted(mounted | listed)[:_MOST_REPOSITORIES]


def scratch_directories(environment: Mapping[str, str]) -> Sequence[Scratch]:
    """Return the directories that the variables name, then everybody's; each once, the first word counts."""
    named = [(Path(environment[name]), name) for name in SCRATCH if environment.get(name, "").startswith("/")]
    found: dict[Path, Scratch] = {}
    for path, name in (*named, *((path, "") for path in TEMPORARY)):
        if path not in found:
            found[path] = Scratch(path, name, free_mb=free_mb(path) or 0.0, flaw=flaw_of(path))
    return list(found.values())


def best_scratch(candidates: Sequence[Scratch]) -> Path:
    """Return where jobs best run: the first directory that can be used and has enough room, else the roomiest."""
    usable = [one for one in candidates if one.flaw is None]
    for one in usable:
        if one.free_mb >= ENOUGH_MB:
            return one.path
    if usable:
        return max(usable, key=lambda one: one.free_mb).path
    try:
        return Path(tempfile.gettempdir())  # it tries other places, and the directory where the pilot started
    except FileNotFoundError:
        return TMP  # for the server to be told what is wrong with it


def closed_to_others(directory: Path) -> Path | None:
    """Return the first directory on the way to *directory*, or itself, that only its owner may pass; None: none is."""
    real = directory.resolve()
    for each in (*reversed(real.parents), real):
        with suppress(FileNotFoundError):  # to be made by the pilot
            if not each.stat().st_mode & 0o001:
                return each
    return None


def open_to_others(directory: Path, environment: Mapping[str, str]) -> Path:
    """Return *directory* if every user may pass it, else one of root's in a scratch directory that everybody may pass.

    Where there is none of these either it is *directory* all the same, and its payloads find out.
    """
    closed = closed_to_others(directory)
    if closed is None:
        return directory
    scratch = [one for one in scratch_directories(environment) if closed_to_others(one.path) is None]
    place = best_scratch(scratch) / _OF_ROOT
    try:
        place.mkdir(mode=0o711, exist_ok=True)
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(1, f"{place} belongs to somebody else")
        place.chmod(0o711)
    except OSError as error:
        log.event("work_directory.closed", directory=directory, closed=closed, error=error)
        return directory
    log.event("work_directory.closed", directory=directory, closed=closed, in_its_place=place)
    return place


def flaw_of(directory: Path, *, to_disk: bool = False) -> str | None:
    """Return why jobs cannot run in a directory, as the end of a sentence; None: they can.

    Args:
        directory: to be written to.
        to_disk: wait until it is written, as some network file systems tell only then that they are full.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix="wms-check-") as file:
            file.write(b"written")
            file.flush()
            if to_disk:
                os.fsync(file.fileno())
        if os.statvfs(directory).f_flag & os.ST_NOEXEC:
            return "is mounted so that nothing can be executed in it"
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
    return None


def free_mb(directory: Path) -> float | None:
    """Return what is free for the pilot; None: there is no such directory."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize / _MB
