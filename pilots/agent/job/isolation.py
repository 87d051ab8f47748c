"""Isolation of payloads from each other and from their pilot (ADR 45)."""

from __future__ import annotations

import json
import os
import pkgutil
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pilots.agent.base import log, processes, shared_directories
from pilots.agent.data.storage import path_of
from pilots.agent.job import accounts, containers
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import container_runtime
from pilots.agent.server.configuration import Place
from pilots.agent.server.lease import Lease
from wms.wire.protocol import IDENTITY_SUDO, IN_PLACE
from wms.wire.search_path import search_path

#: Kinds of isolation, as the node's report names them.
BY_SUDO, BY_USER_ID, BY_NAMESPACES, ALONE = "account by sudo", "user id", "namespaces", "one payload at a time"
BY_BOTH = f"{BY_USER_ID} and {BY_NAMESPACES}"
#: Seconds for trying whether payloads can have namespaces.
_TRY_WITHIN_S = 20.0
#: In the place of the script: namespaces.py only tries.
_TRY = "-"


def kind(place: Place) -> str:
    """Return the kind of isolation that payloads have at this place."""
    if place.identity == IDENTITY_SUDO:
        return BY_SUDO
    if accounts.can_change_user():
        return BY_BOTH if has_namespaces() else BY_USER_ID
    return BY_NAMESPACES if has_namespaces() else ALONE


def by_namespaces(place: Place) -> bool:
    """Return whether a payload at this place has namespaces of its own."""
    return kind(place) in {BY_BOTH, BY_NAMESPACES}


@lru_cache(maxsize=1)
def has_namespaces() -> bool:
    """Return whether payloads can have namespaces of their own: tried once, in the same way as for a payload."""
    source = (pkgutil.get_data("pilots.agent.job", "namespaces.py") or b"").decode()
    try:
        with tempfile.TemporaryDirectory(prefix="wms-try-") as top:
            specification = _specification(Path(top), Path(top), own=[Path(top)], other_user=accounts.can_change_user())
            words = [*_python(), "-c", source, json.dumps(specification), _TRY]
            tried = processes.run_command(words, timeout_s=_TRY_WITHIN_S)
    except (OSError, subprocess.SubprocessError) as error:
        log.event("node.no_namespaces", error=error)
        return False
    if tried.returncode != 0:
        log.event("node.no_namespaces", error=tried.stderr.strip()[-200:])
    return tried.returncode == 0


def words(
    workspace: Workspace,
    lease: Lease,
    *,
    uid: int,
    work_directory: Path,
    hide: Sequence[Path],
    show: Sequence[Path],
    shared_memory_mb: float,
) -> Sequence[str]:
    """Return the first words of the command line that runs a script in namespaces of its own; prepare its files.

    Args:
        workspace: of the job; holds the payload's own /tmp.
        lease: of the job.
        uid: of the payload.
        work_directory: of the pilot.
        hide: paths that the payload must not reach.
        show: paths that it must reach, even below hidden ones.
        shared_memory_mb: size of its /dev/shm; 0: the kernel's default.
    """
    tmp = workspace.area / "everybodys-tmp"
    tmp.mkdir(mode=0o700)
    if uid != os.getuid():
        os.chown(tmp, uid, uid)
    script = workspace.tools / "namespaces.py"
    script.write_bytes(pkgutil.get_data("pilots.agent.job", "namespaces.py") or b"")
    script.chmod(0o644)
    closed, public = _beside(work_directory, hide) if uid == os.getuid() else ([], [])
    specification = _specification(
        workspace.top,
        tmp,
        hide=[*closed, *hide],
        read=[workspace.tools],
        own=[*workspace.of_payload, *filter(Path.exists, [containers.mark_in(workspace)])],
        show=[*public, *filter(Path.exists, show), *_needed(lease, hide)],
        other_user=uid != os.getuid(),
        shared_memory_mb=round(shared_memory_mb),
    )
    return [*_python(), str(script), json.dumps(specification)]


def _needed(lease: Lease, hide: Sequence[Path]) -> Iterator[Path]:
    """Yield the container image, bind mounts and input files that the job needs, without files of the pilot."""
    image = lease.job.container
    named = [image] if image.startswith("/") else []
    if image:
        of_site = [os.environ.get(name, "") for name in container_runtime.variables_of_site()]
        named += [mount.partition(":")[0] for words in of_site for mount in words.split(",")]
    if lease.data.policy == IN_PLACE:
        named += [str(path_of(copy.url) or "") for file in lease.data.input_files for copy in file.copies]
    of_pilot = [path.resolve() for path in hide]
    for path in (Path(name) for name in named if name.startswith("/")):
        real = path.resolve()
        apart = all(hidden not in (real, *real.parents) and real not in hidden.parents for hidden in of_pilot)
        if apart and real.exists() and os.access(real, os.R_OK):
            yield path.absolute()


def _beside(work_directory: Path, hide: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return ([parent of the work directory], its entries that a payload of the same user may see).

    The parent is hidden because it holds, now or later, other pilots of this user and the output spool.
    """
    above, home = work_directory.resolve().parent, Path(_home() or "/").resolve()
    hidden_already = {path.resolve() for path in (*shared_directories.TEMPORARY, *hide)}
    if above in {Path("/"), home, *home.parents} or not hidden_already.isdisjoint({above, *above.parents}):
        return [], []
    programs = {Path(directory).resolve() for directory in (sys.base_prefix, *search_path(os.environ.get("PATH", "")))}
    needed = {path for program in programs for path in (program, *program.parents)}
    public = []
    with suppress(OSError):
        for entry in above.iterdir():
            with suppress(OSError):
                status = entry.stat()
                is_anothers = status.st_uid != os.getuid() and bool(status.st_mode & 0o044)
                if is_anothers or entry.resolve() in needed:
                    public.append(entry)
    return [above], public


def _specification(
    top: Path, tmp: Path, *, other_user: bool, shared_memory_mb: int = 0, **paths: Iterable[Path]
) -> Mapping[str, object]:
    lists = {name: [str(path) for path in paths.get(name, ())] for name in ("hide", "read", "own", "show")}
    plain = {"top": str(top), "tmp": str(tmp), "home": _home(), "other_user": other_user}
    shared = {
        "shared": [str(path) for path in shared_directories.TEMPORARY],
        "shared_memory": str(shared_directories.SHARED_MEMORY),
        "shared_memory_mb": shared_memory_mb,
    }
    return {**plain, **lists, **shared}


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _python() -> Sequence[str]:
    return [sys.executable or "/usr/bin/python3", "-I", "-S"]
