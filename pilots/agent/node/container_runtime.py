"""The node's container runtime: its path and version, its settings, and user namespaces."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from subprocess import SubprocessError

from pilots.agent.base import commands

#: Apptainer is what Singularity is called since 2021; they understand the same commands.
RUNTIMES = ("apptainer", "singularity")
#: How a site says where images are kept, unpacked, and what they see of the node.
SETTINGS_OF_SITE = ("CACHEDIR", "TMPDIR", "BIND", "BINDPATH")
_TIMEOUT_S = 20.0
_MOST_WORDS = 80
_CLONE_NEWUSER = 0x10000000


def runtime() -> str | None:
    """Return the path of the node's container runtime; None: it has none."""
    return next(filter(None, map(shutil.which, RUNTIMES)), None)


def variables_of_site() -> Sequence[str]:
    """Return the variables by which a site says where images are kept, unpacked, and what they see of the node."""
    return [f"{runtime_name.upper()}_{name}" for runtime_name in RUNTIMES for name in SETTINGS_OF_SITE]


def version_of_runtime(program: str) -> str | None:
    """Return what the container runtime calls itself; None: it does not run."""
    try:
        ended = commands.run([program, "--version"], timeout_s=_TIMEOUT_S)
    except (OSError, SubprocessError):
        return None
    return " ".join(ended.stdout.split())[:_MOST_WORDS] if ended.returncode == 0 else None


@lru_cache(maxsize=1)
def has_user_namespaces() -> bool:
    """Return whether an ordinary process may make a user namespace, as containers without privilege need it.

    Tried by a process of its own: switches of several kernels and distributions forbid it, each in its own way.
    """
    attempt = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({_CLONE_NEWUSER}) != 0)"
    command = [sys.executable or "python3", "-I", "-S", "-c", attempt]
    try:
        return commands.run(command, timeout_s=_TIMEOUT_S).returncode == 0
    except (OSError, SubprocessError):
        return False
