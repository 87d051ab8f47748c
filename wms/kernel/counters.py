"""Counters of what the processes of the server do, added up over all processes (ADR 98).

Each process counts in files of its own, in the directory that ``PROMETHEUS_MULTIPROC_DIR`` names, which ``wms-server
up`` sets and empties at its start. Without it a process counts for itself alone.
"""

import fcntl
import logging
import os
from itertools import count
from pathlib import Path
from typing import Final

from prometheus_client import Counter, Histogram, values

logger = logging.getLogger(__name__)

#: Variable of the library.
DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
#: Of a file; ten times what all labels there are take.
_FILE_BYTES: Final = 1024 * 1024


class FileNumber:
    """The number in the names of this process's files: the lowest that no living process has.

    A process that follows another one goes on with its files, so that there are as many as processes at a time, and the
    sums never fall. The kernel frees the number with the process.

    Args:
        directory: of the files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = 0
        self._number = 0

    def __call__(self) -> int:
        """Return the number; a forked process takes one of its own.

        Raises:
            OSError: there is no room for the files.
        """
        if self._process != os.getpid():
            self._number = next(number for number in count(1) if self._is_taken(number))
            self._process = os.getpid()
        return self._number

    def _is_taken(self, number: int) -> bool:
        # NB: never closed; that would free the number.
        lock = os.open(self._directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        for kind in ("counter", "histogram"):
            self._reserve(self._directory / f"{kind}_{number}.db")
        return True

    def _reserve(self, file: Path) -> None:
        """Reserve the room of a file: the kernel would kill a process that writes to mapped memory on a full disk."""
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        finally:
            os.close(descriptor)


def _count_in_files() -> None:
    """Let the counters below be in files, if there is a directory with room for them."""
    values.ValueClass = values.MutexValue
    if directory := os.environ.get(DIRECTORY):
        try:
            values.ValueClass = values.MultiProcessValue(FileNumber(Path(directory)))  # type: ignore[no-untyped-call]
        except OSError:
            logger.exception("counters.not_shared", extra={"directory": directory})


_count_in_files()

#: Names of labels and their values are words of this program: no user, job, path or free text.
REQUESTS: Final = Counter(
    "wms_requests",
    "Answered requests by the name of their address (none: of no address, such as static files) and class of status",
    ["route", "status"],
    registry=None,
)
MATCHES: Final = Counter("wms_matches", "Leases that pilots got", registry=None)
EMPTY_ANSWERS: Final = Counter(
    "wms_empty_answers",
    "Requests of pilots that got no job, by the first condition that left no task queue; no_jobs: none waits; taken: "
    "those that fit were taken by others",
    ["reason"],
    registry=None,
)
MATCH_SECONDS: Final = Histogram(
    "wms_match_seconds",
    "Time from a pilot's request for jobs to its leases, or to the decision that there is none",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
    registry=None,
)
INDEX_AGE_SECONDS: Final = Histogram(
    "wms_match_index_age_seconds",
    "Age of the index of task queues that a match searched first",
    buckets=(0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
    registry=None,
)
ROWS_REMOVED: Final = Counter(
    "wms_rows_removed", "Rows that have become too old and were removed", ["table"], registry=None
)
COUNTERS: Final = (REQUESTS, MATCHES, EMPTY_ANSWERS, MATCH_SECONDS, INDEX_AGE_SECONDS, ROWS_REMOVED)
