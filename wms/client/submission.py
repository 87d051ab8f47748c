"""One submission: jobs that were submitted together, as scripts and notebooks use them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from .connection import Connection, Query, Record
from .errors import ClientError, NotReachableError, ServerRefusedError
from .job import Job, counts_of, jobs_on
from .notebook import submission_html
from .statuses import ENDED, EVERY_STATUS
from .wire.protocol import API_V1

#: Seconds between two looks at the server, at first and at most.
_FIRST_LOOK_S = 0.5
_LONGEST_LOOK_S = 10.0
#: Failed jobs that a notebook lists.
_FAILURES_SHOWN = 10


class StillRunningError(ClientError, TimeoutError):
    """Jobs have not ended in the time that was given."""

    code = "still_running"


class ActionResult(NamedTuple):
    """The result of an action on many jobs."""

    #: Number of jobs on which it was performed.
    done: int
    #: The others: ``id`` and ``code`` of each.
    refused: Sequence[Record]


class _Looks:
    """The pauses between two looks at the server, which grow to 10 s.

    Args:
        timeout_s: None: no limit.
        stop: set by another thread to end the waiting.
    """

    def __init__(self, timeout_s: float | None, stop: threading.Event) -> None:
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._stop = stop
        self._pause_s = _FIRST_LOOK_S

    def pause(self, missing: int) -> bool:
        """Wait until the next look; return False if another thread ended the waiting.

        Raises:
            StillRunningError: the time is over; *missing* jobs have not ended.
        """
        pause_s = self._pause_s
        if self._until is not None:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                raise StillRunningError(f"{missing} jobs have not ended yet; wait longer, or look why they wait.")
            pause_s = min(pause_s, left_s)
        self._pause_s = min(1.5 * self._pause_s, _LONGEST_LOOK_S)
        return not self._stop.wait(pause_s)


class Submission:
    """Jobs that were submitted together.

    ``for job in submission`` yields each job when it has ended, ``await submission`` waits for all of them, and a
    notebook shows a table with a progress bar. It may be used by several threads at once.

    Args:
        connection: of the user.
        submission_id: ``job_group_id`` of its jobs.
        jobs: as answered at the submission, with ``id`` and ``status``; None: they are read when needed.
        warnings: sentences about parts of the descriptions that are probably mistakes.
    """

    def __init__(
        self,
        connection: Connection,
        submission_id: str,
        *,
        jobs: Sequence[Record] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._job_ids = None if jobs is None else [int(job["id"]) for job in jobs]
        #: Identifies it; ``Client.submission`` finds it again.
        self.id = submission_id
        #: Sentences about parts of the descriptions that are probably mistakes.
        self.warnings = tuple(warnings)

    def __repr__(self) -> str:
        return f"<Submission {self.id}>"

    def __len__(self) -> int:
        return len(self.job_ids)

    def __iter__(self) -> Iterator[Job]:
        return self.as_ended()

    def __await__(self) -> Generator[object, None, Mapping[str, int]]:
        asyncio = import_module("asyncio")
        stop = threading.Event()

        async def waited() -> Mapping[str, int]:
            try:
                counts: Mapping[str, int] = await asyncio.to_thread(self._wait, None, stop)
            finally:
                # A task that is cancelled leaves no thread behind.
                stop.set()
            return counts

        return waited().__await__()

    @property
    def job_ids(self) -> Sequence[int]:
        """The ids of its jobs, in the order of the request."""
        if self._job_ids is None:
            self._job_ids = sorted(job.id for job in self.jobs(status=EVERY_STATUS))
        return self._job_ids

    def jobs(self, **filters: str | Sequence[str]) -> Iterator[Job]:
        """Yield its jobs, newest first; as ``Client.jobs``."""
        return jobs_on(self._connection, {"job_group_id": self.id, **filters})

    def counts(self) -> Mapping[str, int]:
        """Return {status: number of its jobs}, without those that are 0."""
        return counts_of(self._connection, self.id)

    def failures(self) -> list[Job]:
        """Return its failed jobs, newest first; ``minor_status`` of each is the reason."""
        return list(self.jobs(status="Failed"))

    def wait(self, timeout_s: float | None = None) -> Mapping[str, int]:
        """Wait until each of its jobs has ended; return {status: number of jobs}.

        While the server cannot be reached it waits on.

        Args:
            timeout_s: None: as long as it takes.

        Raises:
            StillRunningError: some have not ended in this time.
        """
        return self._wait(timeout_s, threading.Event())

    def as_ended(self, timeout_s: float | None = None) -> Iterator[Job]:
        """Yield each of its jobs once, as soon as it has ended.

        Args:
            timeout_s: None: as long as it takes.

        Raises:
            StillRunningError: some have not ended in this time.
        """
        looks = _Looks(timeout_s, threading.Event())
        missing = set(self.job_ids)
        cursor, jobs, is_partial = self._ended("")
        while True:
            for job in jobs:
                if job.id in missing:
                    missing.discard(job.id)
                    yield job
            if not missing:
                return
            if not is_partial:
                looks.pause(len(missing))
            jobs = []
            with suppress(NotReachableError):
                cursor, jobs, is_partial = self._ended(cursor)

    def kill(self) -> ActionResult:
        """Kill those of its jobs that have not ended."""
        return self._act("kill", status="Received,Checking,Waiting,Held,Matched,Running,Stalled,Completing,Rescheduled")

    def retry(self) -> ActionResult:
        """Return its failed jobs to their task queues."""
        return self._act("reschedule", status="Failed")

    def output(
        self, directory: str | Path, *, on_job: Callable[[Job, Path | None], None] | None = None
    ) -> Mapping[int, Path]:
        """Download the output sandbox of each ended job into *directory*/id, and unpack it.

        Args:
            directory: made if missing.
            on_job: called after each job with its directory, or with None if it has no output.

        Returns:
            {id: directory} of the jobs that have an output.
        """
        directories = {}
        for job in self.jobs(status="Done,Failed,Killed"):
            place = job.output(Path(directory) / str(job.id)) if job.record.get("has_output", True) else None
            if place is not None:
                directories[job.id] = place
            if on_job is not None:
                on_job(job, place)
        return directories

    def _repr_html_(self) -> str:
        failed = islice(self.jobs(status="Failed", page_size=str(_FAILURES_SHOWN)), _FAILURES_SHOWN)
        failures = [(job.id, job.minor_status) for job in failed]
        return submission_html(self.id, self.counts(), failures=failures, warnings=self.warnings)

    def _wait(self, timeout_s: float | None, stop: threading.Event) -> Mapping[str, int]:
        looks = _Looks(timeout_s, stop)
        counts = self.counts()
        while (missing := _number_not_ended(counts)) and looks.pause(missing):
            with suppress(NotReachableError):
                counts = self.counts()
        return counts

    def _ended(self, cursor: str) -> tuple[str, list[Job], bool]:
        """Return the jobs that have ended since the cursor, its successor, and whether there may be more already.

        Args:
            cursor: empty: all that have ended, also if the server no longer keeps what changed since then.
        """
        if cursor:
            try:
                query: Query = {"since": cursor, "page_size": 1000}
                answer = self._connection.get(f"{API_V1}jobs/changes/", query=query, expects="cursor")
            except ServerRefusedError as error:
                if error.code != "cursor_expired":
                    raise
            else:
                changes = [{**change, "id": change["job_id"]} for change in answer["changes"]]
                jobs = [Job(self._connection, change) for change in changes if change["status"] in ENDED]
                return str(answer["cursor"]), jobs, bool(answer["more"])
        # In this order: a change between the two is in both.
        cursor = str(self._connection.get(f"{API_V1}jobs/changes/", expects="cursor")["cursor"])
        return cursor, list(self.jobs(status=",".join(sorted(ENDED)))), False

    def _act(self, action: str, *, status: str) -> ActionResult:
        body = {"action": action, "filter": {"job_group_id": self.id, "status": status}}
        answer = self._connection.post(f"{API_V1}jobs/bulk/", body, expects="done", repeatable=True)
        return ActionResult(done=int(answer["done"]), refused=answer["refused"])


def _number_not_ended(counts: Mapping[str, int]) -> int:
    return sum(number for status, number in counts.items() if status not in ENDED)
