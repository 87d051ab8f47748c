"""The site's environment of this node: software repositories and scratch directories (PIL §2.1)."""

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
from wms.wire.search_path import search_path

#: Variables with the scratch directory of a job: first those of batch systems, removed after the job, then those of
#: sites.
SCRATCH = (
    "_CONDOR_SCRATCH_DIR",
    "SLURM_TMPDIR",
    "TMPDIR",
    "OSG_WN_TMP",
    "WN_SCRATCH",
    "SCRATCH",
)
#: Free space that a scratch directory needs (the server's min_free_disk_mb is not known yet).
ENOUGH_MB = 500.0
#: Repositories in a report, whose size is limited; a site has a few dozen.
_MOST_REPOSITORIES = 50
_MB = 1024**2
#: Work directory of pilots that are root, if payloads cannot reach the intended one.
_OF_ROOT = "wms-work"


@dataclass(frozen=True)
class Scratch:
    """A scratch directory in which jobs could run."""

    path: Path
    #: Environment variable that names it; empty: a shared directory.
    variable: str
    free_mb: float
    #: Reason why it cannot be used; None: it can.
    flaw: str | None

    def as_record(self) -> Record:
        """Return the directory as a field of the report."""
        fields = {"variable": self.variable, "path": str(self.path)[:255], "free_mb": round(self.free_mb)}
        return {**fields, "flaw": self.flaw}


def repositories(root: Path, *, mounts: str) -> Sequence[str]:
    """Return the CVMFS repositories that are mounted, permanently or on demand.

    Args:
        root: /cvmfs.
        mounts: content of /proc/self/mounts.
    """
    places = {words[1] for words in map(str.split, mounts.splitlines()) if len(words) > 1}
    mounted = {place[len(f"{root}/") :].partition("/")[0] for place in places if place.startswith(f"{root}/")}
    try:
        listed = {name for name in os.listdir(root) if "." in name}
    except OSError:
        listed = set()
    return sorted(mounted | listed)[:_MOST_REPOSITORIES]


def scratch_directories(environment: Mapping[str, str]) -> Sequence[Scratch]:
    """Return the directories of the variables, then the shared ones; each once, with its first variable."""
    named = [(Path(environment[name]), name) for name in SCRATCH if environment.get(name, "").startswith("/")]
    directories: dict[Path, Scratch] = {}
    for path, name in (*named, *((path, "") for path in TEMPORARY)):
        if path not in directories:
            directories[path] = Scratch(path, name, free_mb=free_mb(path) or 0.0, flaw=flaw_of(path))
    return list(directories.values())


def best_scratch(candidates: Sequence[Scratch]) -> Path:
    """Return the first usable directory with enough free space, else the one with the most."""
    usable = [each for each in candidates if each.flaw is None]
    for each in usable:
        if each.free_mb >= ENOUGH_MB:
            return each.path
    if usable:
        return max(usable, key=lambda scratch: scratch.free_mb).path
    try:
        return Path(tempfile.gettempdir())  # also tries the directory in which the pilot was started
    except FileNotFoundError:
        return TMP  # the check of the work directory reports the reason


def closed_to_others(directory: Path) -> Path | None:
    """Return the first directory in the path of *directory* that other users may not pass through; None: none."""
    real = directory.resolve()
    for each in (*reversed(real.parents), real):
        with suppress(FileNotFoundError):  # the pilot creates it
            if not each.stat().st_mode & 0o001:
                return each
    return None


def payload_path(path: str, *, open_to_all: bool) -> Sequence[str]:
    """Return the directories in which a payload searches programs, made from the pilot's PATH.

    In one that it may not enter, a shell would find "Permission denied" instead of nothing.

    Args:
        path: of the pilot.
        open_to_all: whether the payload has another user, so that directories closed to other users are left out.
    """
    return [each for each in search_path(path) if not _is_closed(Path(each), to_others=open_to_all)]


def _is_closed(directory: Path, *, to_others: bool) -> bool:
    try:
        if not to_others:
            return directory.is_dir() and not os.access(directory, os.X_OK)
        return closed_to_others(directory) is not None
    except (OSError, RuntimeError):  # closed above it; RuntimeError: a loop of links, before Python 3.13
        return True


def open_to_others(directory: Path, environment: Mapping[str, str]) -> Path:
    """Return *directory* if every user may pass through it, else a directory of root in such a scratch directory.

    If there is none, *directory* is returned, and payloads fail with a sentence that says so.
    """
    closed = closed_to_others(directory)
    if closed is None:
        return directory
    scratch = [each for each in scratch_directories(environment) if closed_to_others(each.path) is None]
    substitute = best_scratch(scratch) / _OF_ROOT
    try:
        substitute.mkdir(mode=0o711, exist_ok=True)
        status = substitute.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(1, f"{substitute} belongs to somebody else")
        substitute.chmod(0o711)
    except OSError as error:
        log.event("work_directory.closed", directory=directory, closed=closed, error=error)
        return directory
    log.event("work_directory.closed", directory=directory, closed=closed, in_its_place=substitute)
    return substitute


def flaw_of(directory: Path, *, to_disk: bool = False) -> str | None:
    """Return why jobs cannot run in a directory, as the end of a sentence; None: they can.

    Args:
        directory: to check.
        to_disk: sync the test file, because some network file systems report only then that they are full.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix="wms-check-") as file:
            file.write(b"written")
            file.flush()
            if to_disk:
                os.fsync(file.fileno())
        if os.statvfs(directory).f_flag & os.ST_NOEXEC:
            return "is mounted noexec: no program in it can be executed"
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
    return None


def free_mb(directory: Path) -> float | None:
    """Return the free space of a directory's file system; None: there is no such directory."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize / _MB
