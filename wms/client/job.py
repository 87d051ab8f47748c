"""One job, as scripts and notebooks use it; lists and numbers of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

from .connection import Connection, Record
from .outputs import MOST_MB, fetch_output
from .statuses import ENDED, EVERY_STATUS
from .wire.protocol import API_V1

if TYPE_CHECKING:
    from .downloads import OnBytes

#: Filters of lists of jobs, such as ``status="Failed"`` or ``status=["Failed", "Killed"]``.
Filter = Union[str, int, Sequence[str]]


class Job:
    """One job: its last known fields, and its actions.

    Args:
        connection: of the user.
        record: its fields, at least ``id`` and ``status``, as the REST interface answers them.
    """

    def __init__(self, connection: Connection, record: Record) -> None:
        self._connection = connection
        self._record = record
        #: Its number.
        self.id = int(record["id"])

    def __repr__(self) -> str:
        return f"<Job {self.id}, {self.status}>"

    @property
    def record(self) -> Record:
        """Its last known fields, by name; ``refresh`` reads them anew."""
        return self._record

    @property
    def status(self) -> str:
        """Its last known status, such as ``Running``."""
        return str(self._record["status"])

    @property
    def minor_status(self) -> str:
        """The reason of its last known status, in words."""
        return str(self._record.get("minor_status", ""))

    @property
    def is_ended(self) -> bool:
        """Whether it was Done, Failed, Killed or Deleted."""
        return self.status in ENDED

    def refresh(self) -> Job:
        """Read all its fields, with its description; return the job itself."""
        self._record = self._connection.get(self._path(), expects="status")
        return self

    def history(self) -> list[Record]:
        """Return every change of its status, oldest first."""
        return self._connection.get_list(f"{self._path()}history/")

    def why(self, *, site: str | None = None) -> Record:
        """Return why it waits: ``summary`` is the answer in a sentence.

        Args:
            site: only the queues of this site.
        """
        query = {} if site is None else {"site": site}
        return self._connection.get(f"{self._path()}explain/", expects="summary", query=query)

    def peek(self) -> Record:
        """Return the last lines that it has written: ``std_output``, ``std_error``, ``reported_at``."""
        return self._connection.get(f"{self._path()}peek/", expects="std_output")

    def output(self, directory: str | Path, *, on_bytes: OnBytes | None = None, most_mb: int = MOST_MB) -> Path | None:
        """Download its output sandbox and unpack it into *directory*, which is made if missing.

        Args:
            directory: files in it are replaced by those of the job with the same name.
            on_bytes: as of ``Connection.download``.
            most_mb: largest output, packed or unpacked, that is fetched.

        Returns:
            The directory, or None if the job has no output (yet).

        Raises:
            OutputTooLargeError: it is larger than *most_mb*.
        """
        return fetch_output(self._connection, self.id, Path(directory), on_bytes=on_bytes, most_mb=most_mb)

    def kill(self) -> Job:
        """Kill it; a pilot that runs it stops it."""
        return self._do("kill")

    def reschedule(self) -> Job:
        """Return it to its task queue."""
        return self._do("reschedule")

    def delete(self) -> Job:
        """Delete it: lists leave it out. A job that runs must be killed first."""
        return self._do("delete")

    def hold(self, reason: str = "") -> Job:
        """Take it out of its task queue until it is released.

        Args:
            reason: becomes its minor status.
        """
        return self._do("hold", {"reason": reason} if reason else {})

    def release(self) -> Job:
        """Return it from Held to Waiting."""
        return self._do("release")

    def edit(self, **changes: object) -> Job:
        """Change ``priority``, ``sites``, ``banned_sites`` or ``job_name`` while it is Waiting or Held."""
        self._record = self._connection.patch(self._path(), changes, expects="status", repeatable=True)
        return self

    def _do(self, action: str, body: Mapping[str, str] | None = None) -> Job:
        self._record = self._connection.post(f"{self._path()}{action}/", body or {}, expects="status")
        return self

    def _path(self) -> str:
        return f"{API_V1}jobs/{self.id}/"


def jobs_on(connection: Connection, filters: Mapping[str, Filter]) -> Iterator[Job]:
    """Yield jobs, newest first; as ``Client.jobs``."""
    query = {name: value if isinstance(value, (str, int)) else ",".join(value) for name, value in filters.items()}
    for row in connection.rows(f"{API_V1}jobs/", query={"page_size": 1000, **query}):
        yield Job(connection, row)


def counts_of(connection: Connection, submission_id: str) -> Mapping[str, int]:
    """Return {status: number of the submission's jobs}, without those that are 0.

    NB: not from the submission itself, whose answer also counts the jobs of each site.
    """
    query = {"job_group_id": submission_id, "status": EVERY_STATUS}
    answer = connection.get(f"{API_V1}jobs/summary/", query=query, expects="results")
    return {str(row["status"]): int(row["count"]) for row in answer["results"]}
