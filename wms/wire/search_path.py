"""PATH, the directories in which programs are searched, as this process gives it to programs that are not its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: Directories that every PATH has, after its own.
STANDARD = ("/usr/local/bin", "/usr/bin", "/bin")


def search_path(path: str) -> list[str]:
    """Return the directories of *path*: absolute ones, without this interpreter's virtual environment, then STANDARD.

    Programs of that environment, which at a local CE is the server's, are not those of the machine.
    """
    own = _of_virtual_environment()
    directories = [each for each in path.split(":") if each.startswith("/") and os.path.realpath(each) != own]
    return list(dict.fromkeys((*directories, *STANDARD)))


def leave_out_current_directory() -> None:
    """Keep only absolute directories in the PATH of this process.

    Any other is found in the current directory, where another account may have put a program of its own.
    """
    path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = ":".join(each for each in path.split(":") if each.startswith("/")) or os.defpath


def _of_virtual_environment() -> str | None:
    """Return the directory of this interpreter, if it belongs to a virtual environment."""
    directory = Path(sys.executable or "/").parent
    return os.path.realpath(directory) if (directory.parent / "pyvenv.cfg").exists() else None
