"""The client: submits jobs and finds them, for scripts and notebooks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import uuid4

from . import credentials
from .connection import Connection, Record
from .descriptions import Description, LocalDescription, read, request_of, yaml_reader
from .downloads import OnBytes
from .errors import WrongUsageError
from .job import Filter, Job, jobs_on
from .replicas import fetch, replicas_of
from .submission import Submission
from .wire.protocol import API_V1


class Client:
    """A user of a server. It may be used by several threads at once.

    Without arguments: ``WMS_SERVER_URL`` and ``WMS_TOKEN``, else the server and the token of ``wms login``.

    Args:
        url: address of the server; None: as above.
        token: token of a user; None: as above.
        environment: the variables, also for the place of the stored log-in; ``WMS_INSECURE=1`` allows the address of
            another machine to be ``http://``.

    Raises:
        NotLoggedInError: there is no token for this server.
        WrongUsageError: the address is not valid, or the stored log-in is damaged.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, environment: Mapping[str, str] = os.environ
    ) -> None:
        if url is not None:
            environment = {**environment, "WMS_SERVER_URL": url}
        if token is not None:
            environment = {**environment, "WMS_TOKEN": token}
        #: Its connection, for requests that have no method here.
        self.connection: Connection = credentials.logged_in(environment)

    def __repr__(self) -> str:
        return f"<Client of {self.connection.url}>"

    def submit(
        self,
        description: Description | Sequence[Description] | None = None,
        *,
        group: str | None = None,
        request_id: str | None = None,
        **fields: object,
    ) -> Submission:
        """Submit jobs, all or none, and return them.

        Local files in ``input_sandbox`` (``InputSandbox`` of JDL and CFG) are uploaded first; in a file with a
        description they are relative to its directory. The request has an id, and is repeated with it when its answer
        is lost: the jobs are there once.

        Args:
            description: fields by name, the text of a JDL, the path of a file that ends with ``.jdl``, ``.cfg``,
                ``.json`` or ``.yaml``, or a sequence of these; None: only *fields*.
            group: the group to act in; None: the default group.
            request_id: a UUID; None: a new one. A script that is run again names its own.
            fields: fields of the description, such as ``executable="/bin/echo"``; not beside several.

        Raises:
            ServerRefusedError: a description is not valid; ``errors`` has the sentences by field.
            WrongUsageError: a file cannot be read.
        """
        body = self.request_of(description, **fields)
        if group is not None:
            body["group"] = group
        body["request_id"] = request_id or body.get("request_id") or str(uuid4())
        answer = self.connection.post(f"{API_V1}jobs/", body, expects="job_group_id", repeatable=True)
        submission_id = str(answer["job_group_id"])
        return Submission(self.connection, submission_id, jobs=answer["jobs"], warnings=answer["warnings"])

    def request_of(
        self,
        description: Description | Sequence[Description] | None = None,
        **fields: object,
    ) -> dict[str, object]:
        """Return the body of the request that ``submit`` sends, after the upload of local files; as ``submit``."""
        name_of, read_yaml = cache(self.upload), yaml_reader(self.connection)
        if isinstance(description, Sequence) and not isinstance(description, str):
            local = [each for one in description for each in read(one, read_yaml=read_yaml)]
        else:
            local = read({} if description is None else description, read_yaml=read_yaml)
        if fields and len(local) != 1:
            raise WrongUsageError("Fields are not for several descriptions; write them into each of these.")
        jobs = [LocalDescription({**each.body, **fields}, each.directory) for each in local]
        return request_of([job.with_names(name_of) for job in jobs])

    def upload(self, file: str | Path) -> str:
        """Upload a file, or an archive to be unpacked in the job's directory; return its name, ``sha256:…``.

        Raises:
            WrongUsageError: the file cannot be read.
        """
        return str(self.connection.upload(f"{API_V1}sandboxes/", Path(file), expects="sandbox")["sandbox"])

    def replicas(self, lfn: str, *, vo: str | None = None, storage_element: str | None = None) -> list[Record]:
        """Return the replicas of a file on storage elements, each with its ``url``.

        Args:
            lfn: logical name of the file, with or without the prefix ``LFN:``.
            vo: VO of the file; None: any.
            storage_element: only the replica there; None: all.

        Raises:
            NoReplicaError: there is none that the user may see.
            WrongUsageError: files of several VOs have this name.
        """
        return replicas_of(self.connection, lfn, vo=vo, storage_element=storage_element)

    def fetch(
        self,
        lfn: str,
        target: str | Path,
        *,
        force: bool = False,
        vo: str | None = None,
        on_bytes: OnBytes | None = None,
    ) -> Path:
        """Download a file of the storage elements to *target*, from a replica that can be read; return its path.

        Size and checksum are compared where the catalogue has them. ``BEARER_TOKEN``, or the file that
        ``BEARER_TOKEN_FILE`` names, holds a token for storage elements that need one.

        Args:
            lfn: as of ``replicas``.
            target: file, in a directory that exists.
            force: whether an existing file is replaced.
            vo: as of ``replicas``.
            on_bytes: called with (bytes that are there, bytes of the whole file or None).

        Raises:
            NoReplicaError: as ``replicas``.
            NoReadableReplicaError: no replica can be read from this computer.
            WrongUsageError: *target* exists, or cannot be written.
        """
        fetch(self.replicas(lfn, vo=vo), Path(target), force=force, on_bytes=on_bytes)
        return Path(target)

    def submission(self, submission_id: str) -> Submission:
        """Return an earlier submission.

        Args:
            submission_id: its ``id``, which is ``job_group_id`` of its jobs.
        """
        return Submission(self.connection, submission_id)

    def jobs(self, **filters: Filter) -> Iterator[Job]:
        """Yield jobs, newest first; deleted ones only if ``status`` names them.

        Args:
            filters: of ``GET /api/v1/jobs/``, such as ``status="Failed"``, ``site=…``, ``job_name="sim-*"``,
                ``job_group_id=…``, ``submitted_after="2026-01-31T00:00:00Z"``. A sequence means any of its values.
        """
        return jobs_on(self.connection, filters)

    def job(self, job_id: int) -> Job:
        """Return one job with all its fields.

        Raises:
            ServerRefusedError: there is no such job (code ``not_found``).
        """
        return Job(self.connection, {"id": job_id, "status": ""}).refresh()

    def why(self, job_ids: Iterable[int], *, site: str | None = None) -> list[Record]:
        """Return why jobs wait, in the order of *job_ids*; as ``Job.why``."""
        return [Job(self.connection, {"id": job_id, "status": ""}).why(site=site) for job_id in job_ids]
