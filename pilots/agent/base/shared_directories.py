"""The directories of a node that every user may write to."""

from __future__ import annotations

from pathlib import Path

#: /tmp may be in memory, /var/tmp is on a disk, /dev/shm contains shared memory.
TMP, VAR_TMP, SHARED_MEMORY = map(Path, ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - each use creates its own name there
#: For files of any program.
TEMPORARY = (TMP, VAR_TMP)
#: All of them: a payload may leave files in each.
ALL = (*TEMPORARY, SHARED_MEMORY, Path("/dev/mqueue"), Path("/run/lock"))
