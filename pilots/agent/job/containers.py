"""Payloads in containers: run by the node's own runtime, with the job's directories where they are without one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pilots.agent.job import sandbox
from pilots.agent.job.preparation import RESCHEDULE, CannotRunError, NodeFlawError, Program, own_file, words_of
from pilots.agent.job.workspace import Workspace
from pilots.agent.node.container_runtime import RUNTIMES, SETTINGS_OF_SITE, runtime
from pilots.agent.server.lease import Lease

_CVMFS = Path("/cvmfs")
#: Inside the container: leave a mark, then become the payload. Nothing else tells its exit codes from the runtime's.
_BEGIN = 'echo begun > "$0" && exec "$@"'
_MARK = "container-begun"
#: How the runtime begins the line that says why it gave up; others may follow.
_REASONS = ("FATAL", "ERROR")
_LAST_BYTES = 4096
_MAX_REASON = 150


class NotBegunError(NodeFlawError):
    """The container did not start: its image is no good, or the node's runtime is not."""

    what = "container"


def program_of(lease: Lease, environment: Mapping[str, str], workspace: Workspace) -> Program:
    """Return what is to be executed for a job that runs in a container, whose image must have a shell.

    A file of the sandbox is run as it is without a container; any other program is one of the image.

    Raises:
        CannotRunError: the node has no runtime or not the image, or the arguments cannot be split.
    """
    job, program = lease.job, runtime()
    if program is None:
        raise CannotRunError(RESCHEDULE, f"The node has no container runtime ({' or '.join(RUNTIMES)})")
    options = ["--home", str(workspace.job), "--pwd", str(workspace.job), "--bind", str(workspace.tmp)]
    if _CVMFS.is_dir():
        options += ["--bind", str(_CVMFS)]
    if job.gpus:
        options.append("--nv")
    executable = own_file(job.executable, workspace.job) or job.executable
    mark = _make_mark(workspace)
    options += ["--bind", str(mark)]
    begin = ["/bin/sh", "-c", _BEGIN, str(mark)]
    return Program(
        executable=Path(program),
        arguments=[program, "exec", *options, _image(lease, workspace), *begin, str(executable), *words_of(lease)],
        environment={**environment, **_settings(workspace)},
        directory=workspace.job,
    )


def check_begun(lease: Lease, workspace: Workspace) -> None:
    """Accept a failure of the runtime that is the payload's own.

    Raises:
        NotBegunError: the payload was never reached; the runtime of another node may do better.
    """
    if mark_in(workspace).stat().st_size == 0:
        reason = _reason(workspace.job / lease.job.std_error, workspace.job)
        raise NotBegunError(f"The container could not be started{reason and ': '}{reason}")


def mark_in(workspace: Workspace) -> Path:
    """Return the file in which a container's first command leaves its mark."""
    return workspace.tools / _MARK


def _make_mark(workspace: Workspace) -> Path:
    """Return an empty file that the container's first command writes to, whoever its user is.

    It is not in the payload's directories: a payload that empties these has run all the same.
    """
    mark = mark_in(workspace)
    mark.touch()
    mark.chmod(0o666)
    return mark


def _image(lease: Lease, workspace: Workspace) -> str:
    name = lease.job.container
    if "://" in name:
        return name
    if name.startswith("/"):
        if not Path(name).exists():
            raise CannotRunError(RESCHEDULE, f"The container image is missing on the node: {name}")
        return name
    own = workspace.job / name
    if not own.exists():
        sentence = f"There is no container image {name} among the job's files"
        raise CannotRunError(None, f"{sentence}; one of a registry is written docker://{name}")
    return str(own)


def _settings(workspace: Workspace) -> Mapping[str, str]:
    """Return the runtime's settings: the site's, else directories that are removed with the job.

    Image files are unpacked in TMPDIR, where it must exist. The payload's own would do, but a payload that empties it
    would remove the root directory that it runs in.
    """
    found = {}
    for prefix in (name.upper() for name in RUNTIMES):
        found[f"{prefix}_CACHEDIR"] = str(workspace.runtime / "images")
        found[f"{prefix}_TMPDIR"] = str(workspace.runtime)
        for variable in (f"{prefix}_{name}" for name in SETTINGS_OF_SITE):
            if variable in os.environ:
                found[variable] = os.environ[variable]
    return found


def _reason(path: Path, directory: Path) -> str:
    """Return the last line that tells why the runtime gave up, else the last line.

    The payload may have begun all the same, and have put a link in the place of the file.
    """
    file = sandbox.open_inside(path, directory)
    if file is None:
        return ""
    with file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        lines = file.read(_LAST_BYTES).decode("utf-8", "replace").replace("\0", "").splitlines()
    told = [" ".join(line.split()) for line in lines if line.strip()]
    reasons = [line for line in told if line.startswith(_REASONS)]
    return next(reversed(reasons or told), "")[:_MAX_REASON]
