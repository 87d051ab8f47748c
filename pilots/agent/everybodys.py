"""Directories of a node where everybody may write."""

from __future__ import annotations

from pathlib import Path

#: For what is needed a short while; for what stays longer, and is never in memory; the names of shared memory.
TMP, VAR_TMP, SHARED_MEMORY = map(Path, ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - each use makes its own there
#: Where programs put what they name themselves.
TEMPORARY = (TMP, VAR_TMP)
#: All where a payload that has its own user id may have left files.
ALL = (*TEMPORARY, SHARED_MEMORY, Path("/dev/mqueue"), Path("/run/lock"))
