"""The directories of a node in which every user may write."""

from __future__ import annotations

from pathlib import Path

#: /tmp may be in memory; /var/tmp is on a disk; the last one holds the names of shared memory.
TMP, VAR_TMP, SHARED_MEMORY = map(Path, ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - each use makes its own there
#: For files of any program.
TEMPORARY = (TMP, VAR_TMP)
#: All of them; a payload that has its own user id may have left files in each.
ALL = (*TEMPORARY, SHARED_MEMORY, Path("/dev/mqueue"), Path("/run/lock"))
