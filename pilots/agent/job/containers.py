"""Payloads in containers: run by the node's runtime, with the job's directories at the same paths as outside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pilots.agent.job import sandbox
from pilots.agent.job.preparation import CannotRunError, NodeFlawError, Program, own_file, words_of
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import gpus
from pilots.agent.node.container_runtime import RUNTIMES, SETTINGS_OF_SITE, runtime
from pilots.agent.server.lease import Lease
from wms.wire.protocol import RESCHEDULE_EXIT_CODE

_CVMFS = Path("/cvmfs")
#: First command in the container: writes a mark, then becomes the payload. Only the mark distinguishes exit codes of
#: the payload from those of the runtime.
_BEGIN = 'echo begun > "$0" && exec "$@"'
_MARK = "container-begun"
#: Beginnings of the lines in which a runtime reports errors; other lines may follow.
_REASONS = ("FATAL", "ERROR")
#: Bytes at the end of standard error in which the reason is searched, and characters of a reason.
_LAST_BYTES = 4096
_MAX_REASON = 150


class NotBegunError(NodeFlawError):
    """The container did not start, because of its image or of the node's runtime."""

    what = "container"


def program_of(lease: Lease, environment: Mapping[str, str], workspace: Workspace) -> Program:
    """Return the command that runs the job in its container, whose image must have a shell.

    A file of the sandbox is executed from the job's directory; any other program must be in the image.

    Raises:
        CannotRunError: runtime or image is missing, the file has a flaw, or the arguments cannot be split.
    """
    job, program = lease.job, runtime()
    if program is None:
        raise CannotRunError(RESCHEDULE_EXIT_CODE, f"The node has no container runtime ({' or '.join(RUNTIMES)})")
    options = ["--home", str(workspace.job), "--pwd", str(workspace.job), "--bind", str(workspace.tmp)]
    shown = [_CVMFS]
    if job.gpus:
        of_slot = gpus.of_slot(os.environ)
        options += of_slot.container_options
        shown += of_slot.directories
    for directory in filter(Path.is_dir, shown):
        options += ["--bind", str(directory)]
    executable = own_file(job.executable, workspace.job, search_path=None) or job.executable
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
    """Check that a container that failed had started its payload.

    Raises:
        NotBegunError: the payload was not started; the runtime of another node may start it.
    """
    if mark_in(workspace).stat().st_size == 0:
        reason = _reason(workspace.job / lease.job.std_error, workspace.job)
        raise NotBegunError(f"The container could not be started{reason and ': '}{reason}")


def mark_in(workspace: Workspace) -> Path:
    """Return the file that a container's first command writes to."""
    return workspace.tools / _MARK


def _make_mark(workspace: Workspace) -> Path:
    """Create the empty file for the mark, writable for every user.

    It is outside the payload's directories, which the payload may empty.
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
            raise CannotRunError(RESCHEDULE_EXIT_CODE, f"The container image is missing on the node: {name}")
        return name
    own = workspace.job / name
    if not own.exists():
        sentence = f"There is no container image {name} among the job's files"
        raise CannotRunError(None, f"{sentence}; one of a registry is written docker://{name}")
    return str(own)


def _settings(workspace: Workspace) -> Mapping[str, str]:
    """Return the runtime's settings: those of the site, else directories that are removed with the job.

    The runtime unpacks images in its TMPDIR. The payload's own is not used: a payload that empties it would remove its
    root directory.
    """
    settings = {}
    for prefix in (name.upper() for name in RUNTIMES):
        settings[f"{prefix}_CACHEDIR"] = str(workspace.runtime / "images")
        settings[f"{prefix}_TMPDIR"] = str(workspace.runtime)
        for variable in (f"{prefix}_{name}" for name in SETTINGS_OF_SITE):
            if variable in os.environ:
                settings[variable] = os.environ[variable]
    return settings


def _reason(path: Path, directory: Path) -> str:
    """Return the last line in which the runtime reports an error, else the last line.

    The file is opened without following links, in case a payload has run and replaced it.
    """
    file = sandbox.open_inside(path, directory)
    if file is None:
        return ""
    with file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        lines = file.read(_LAST_BYTES).decode("utf-8", "replace").replace("\0", "").splitlines()
    messages = [" ".join(line.split()) for line in lines if line.strip()]
    reasons = [line for line in messages if line.startswith(_REASONS)]
    return next(reversed(reasons or messages), "")[:_MAX_REASON]
