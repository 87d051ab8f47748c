"""The setup of a job: its input sandboxes, required software, environment and program."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.job import executables, proxies, sandbox
from pilots.agent.job.sandbox import UnsafeMemberError
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import gpus, site_environment
from pilots.agent.server.api import Server
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import RefusedError, TooMuchError
from pilots.agent.server.lease import Lease, LeasedJob, SandboxReference
from wms.wire.archives import CHUNK_BYTES, ArchiveError
from wms.wire.protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE, RESCHEDULE_EXIT_CODE, WHOLE_NODE_TAG

#: USER of a payload whose user id has no account, for a job whose owner is not known.
_NAMELESS = "payload"
#: Errors of system calls whose cause is the node (disk, file systems, memory, limits), not the job.
_OF_NODE = frozenset(
    {
        errno.EAGAIN, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC,
        errno.EROFS, errno.ESTALE,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """The program to execute, with resolved paths."""

    executable: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path


class CannotRunError(Exception):
    """The payload cannot be started here; the job gets *exit_code* (None: none).

    The job requires something that this node does not have, unless ``of_node``.
    """

    #: True if the node is the cause, so that other jobs would fail too.
    of_node = False

    def __init__(self, exit_code: int | None, minor: str) -> None:
        super().__init__(minor)
        self.exit_code = exit_code
        self.minor = minor


class NodeTroubleError(CannotRunError):
    """The node cannot start any payload; another node may."""

    of_node = True

    def __init__(self, minor: str) -> None:
        super().__init__(RESCHEDULE_EXIT_CODE, minor)


class NodeFlawError(CannotRunError):
    """The node lacks something that the job needs; it is reported to operators. Another node may have it."""

    #: Name of the check of the node, in one word.
    what = "software"

    def __init__(self, minor: str) -> None:
        super().__init__(RESCHEDULE_EXIT_CODE, minor)


def is_of_node(error_number: int | None) -> bool:
    """Return whether the cause of a failed system call is the node, not the job."""
    return error_number in _OF_NODE


class DamagedTransferError(Exception):
    """The file that arrived differs from the one that was sent."""


def fetch_input(
    server: Server,
    lease: Lease,
    reference: SandboxReference,
    *,
    workspace: Workspace,
    configuration: PilotConfiguration,
    give_up: Callable[[], bool],
) -> None:
    """Fetch one input sandbox, compare its SHA-256, and put it into the job's directory.

    Raises:
        DamagedTransferError: it may be tried again.
        CannotRunError: another try would not help.
        UnreachableError, GivenUpError, LeaseEndedError: see Server.fetch.
    """
    arrived = workspace.scratch / "arriving"
    sha256 = hashlib.sha256()
    try:
        with arrived.open("wb+") as file:
            server.fetch(lease, digest=reference.digest, into=file, max_bytes=reference.size_bytes, give_up=give_up)
            file.seek(0)
            while chunk := file.read(CHUNK_BYTES):
                sha256.update(chunk)
            if sha256.hexdigest() != reference.digest:
                raise DamagedTransferError(f"SHA-256 mismatch for {reference.file_name}")
            if reference.is_archive:
                file.seek(0)
                sandbox.unpack(file, into=workspace.job, max_bytes=configuration.sandbox_max_unpacked_bytes)
                return
        sandbox.place(arrived, into=workspace.job, name=reference.file_name)
    except TooMuchError as error:
        raise DamagedTransferError(str(error)) from error
    except RefusedError as error:
        raise CannotRunError(None, f"Input sandbox {reference.file_name} cannot be fetched: {error.detail}") from error
    except (UnsafeMemberError, ArchiveError, ValueError) as error:
        raise CannotRunError(None, f"Input sandbox {reference.file_name} cannot be unpacked: {error}") from error
    except OSError as error:
        log.event("node.disk_trouble", error=error)
        raise NodeTroubleError(f"The node could not store an input sandbox: {error.strerror}") from error


def environment_of(
    lease: Lease, workspace: Workspace, configuration: PilotConfiguration, *, uid: int, identity: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the payload's environment, which docs/jdl.md lists; of the pilot's it has only PATH, LANG, TZ and proxy.

    Args:
        lease: of the job.
        workspace: of the job.
        configuration: of the pilot.
        uid: of the payload.
        identity: variables with the name of the payload's user (PIL §3.1).
    """
    job, place = lease.job, configuration.place
    user = _name_of(uid) or job.owner or _NAMELESS
    base = {
        "PATH": ":".join(site_environment.payload_path(os.environ.get("PATH", ""), open_to_all=workspace.shared)),
        "HOME": str(workspace.job),
        "PWD": str(workspace.job),
        "TMPDIR": str(workspace.tmp),
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        **({"TZ": os.environ["TZ"]} if os.environ.get("TZ") else {}),
        "SHELL": "/bin/sh",
        "USER": user,
        "LOGNAME": user,
        **proxies.proxies_of(os.environ),
    }
    own = {
        **identity,
        **_of_dirac(job, site=place.site),
        "WMS_JOB_ID": str(job.id),
        "WMS_JOB_NAME": job.job_name,
        "WMS_JOB_OWNER": job.owner,
        "WMS_MATCH_ID": lease.match_id,
        "WMS_PROCESSORS": str(job.processors),
        **_gpus_of(lease),
        "WMS_SITE": place.site,
        "WMS_CE": place.ce,
        "WMS_QUEUE": place.queue,
    }
    return {**base, **dict(job.environment), **{name: value for name, value in own.items() if value}}


def _name_of(uid: int) -> str:
    """Return the name of a user; empty: it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _of_dirac(job: LeasedJob, *, site: str) -> Mapping[str, str]:
    """Return the variables by which payloads of DIRAC know their job."""
    return {
        "JOBID": str(job.id),
        "DIRACJOBID": str(job.id),
        "DIRACSITE": site,
        # The processors of the slot, which other jobs may share, are not the job's to use.
        "DIRAC_PROCESSORS": str(job.processors),
        "DIRAC_JOB_PROCESSORS": str(job.processors),
        "DIRAC_WHOLENODE": str(WHOLE_NODE_TAG in job.tags),
    }


def _gpus_of(lease: Lease) -> Mapping[str, str]:
    """Return the variables that assign GPUs of the slot to the payload; empty if the job requires none."""
    count = lease.job.gpus
    if not count:
        return {}
    available = gpus.of_slot(os.environ)
    # If fewer GPUs are visible than the pilot was configured with, they are of another kind.
    names = available.names[:count] if len(available.names) >= count else ()
    return {"WMS_GPUS": str(count), available.variable: ",".join(names)}


def check_software(lease: Lease, environment: Mapping[str, str], workspace: Workspace) -> None:
    """Check that the node has all paths and commands that the job needs.

    Raises:
        NodeFlawError: one is missing; another node may have it.
    """
    for name in lease.job.software:
        program = executables.found(name, search_path=environment["PATH"], directory=workspace.job)
        if not (_is_there(workspace.job / name) if "/" in name else program):
            raise NodeFlawError(f"Software is missing on the node: {name}")


def program_of(lease: Lease, environment: Mapping[str, str], workspace: Workspace) -> Program:
    """Return the program of a job: a file of the sandbox, an absolute path, or a command in PATH.

    Raises:
        CannotRunError: there is no such program, it has a flaw, or the arguments cannot be split.
    """
    job = lease.job
    words = words_of(lease)
    own = own_file(job.executable, workspace.job, search_path=environment["PATH"])
    return Program(
        executable=own or _executable(job.executable, environment, workspace),
        arguments=[job.executable, *words],
        environment=environment,
        directory=workspace.job,
    )


def words_of(lease: Lease) -> list[str]:
    """Return the job's arguments, split as by a shell.

    Raises:
        CannotRunError: they cannot be split.
    """
    try:
        return shlex.split(lease.job.arguments)
    except ValueError as error:
        raise CannotRunError(None, f"The arguments cannot be split as a shell would: {error}") from error


def own_file(name: str, directory: Path, *, search_path: str | None) -> Path | None:
    """Return the file *name* of the job's *directory*, made executable; None: there is no such file.

    Args:
        name: of the executable.
        directory: of the job.
        search_path: PATH of the payload; None: that of a container.

    Raises:
        CannotRunError: the file has a flaw, so that it would not run as meant.
    """
    path = directory / name
    if name.startswith("/") or not _is_there(path) or not path.is_file() or not _is_inside(path, directory):
        return None
    if (flaw := executables.flaw_of(directory, name, search_path=search_path)) is not None:
        raise CannotRunError(flaw.exit_code, flaw.sentence)
    path.chmod(path.stat().st_mode | 0o500)  # archives and uploads may lose the bit
    return path


def _executable(name: str, environment: Mapping[str, str], workspace: Workspace) -> Path:
    """Return the absolute path of the program *name* of the node."""
    if not name.startswith("/") and "/" not in name:
        places = environment["PATH"].split(":")
        candidates = [executables.found(name, search_path=place, directory=workspace.job) for place in places]
        programs = [each for each in candidates if each is not None]
        if workspace.shared:
            # As a shell of the payload's user: first those that it may execute.
            programs.sort(key=lambda each: site_environment.closed_to_others(each) is not None)
        if programs:
            return programs[0]
    elif name.startswith("/") and _is_there(Path(name)) and Path(name).is_file():
        if os.access(name, os.X_OK):
            return Path(name)
        raise CannotRunError(NOT_EXECUTABLE_EXIT_CODE, f"The executable may not be executed on the node: {name}")
    raise CannotRunError(NOT_FOUND_EXIT_CODE, f"Executable not found: {name}")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, in a closed directory, or not a valid name
        return False


def _is_inside(path: Path, directory: Path) -> bool:
    try:
        path.resolve().relative_to(directory.resolve())
    except ValueError:
        return False
    return True
