"""The node's container runtime: its path and version, its settings, and user namespaces."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from subprocess import SubprocessError

from pilots.agent.base import processes

#: Apptainer is the name of Singularity since 2021; both have the same commands.
RUNTIMES = ("apptainer", "singularity")
#: Suffixes of variables by which a site sets the image cache, its temporary directory, and bind mounts.
SETTINGS_OF_SITE = ("CACHEDIR", "TMPDIR", "BIND", "BINDPATH")
#: Timeout in seconds of one command.
_TIMEOUT_S = 20.0
#: Characters of a version.
_MAX_VERSION = 80
_CLONE_NEWUSER = 0x10000000


def runtime() -> str | None:
    """Return the path of the node's container runtime; None: it has none."""
    return next(filter(None, map(shutil.which, RUNTIMES)), None)


def variables_of_site() -> Sequence[str]:
    """Return the names of the variables by which a site configures the runtimes."""
    return [f"{runtime_name.upper()}_{name}" for runtime_name in RUNTIMES for name in SETTINGS_OF_SITE]


def version_of_runtime(program: str) -> str | None:
    """Return the name and version that the container runtime prints; None: it does not run."""
    try:
        ended = processes.run_command([program, "--version"], timeout_s=_TIMEOUT_S)
    except (OSError, SubprocessError):
        return None
    return " ".join(ended.stdout.split())[:_MAX_VERSION] if ended.returncode == 0 else None


@lru_cache(maxsize=1)
def has_user_namespaces() -> bool:
    """Return whether an unprivileged process may create a user namespace, which unprivileged containers need.

    Tried in a new process, because kernels and distributions forbid it by different settings.
    """
    attempt = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({_CLONE_NEWUSER}) != 0)"
    command = [sys.executable or "python3", "-I", "-S", "-c", attempt]
    try:
        return processes.run_command(command, timeout_s=_TIMEOUT_S).returncode == 0
    except (OSError, SubprocessError):
        return False
