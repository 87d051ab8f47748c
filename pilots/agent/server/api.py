"""The REST calls of a pilot, one function each; docs/rest.md describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.server import configuration, json_fields
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import Answer, Client, RefusedError, UnreachableError
from pilots.agent.server.job_data import (
    Content,
    GrantedName,
    JobData,
    OutputDestination,
    parse_data,
    parse_place,
    parse_reserved,
)
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from pilots.agent.server.lease import (
    Lease,
    LeasedJob,
    LeaseEndedError,
    PilotCommand,
    Renewal,
    parse_job,
    parse_renewal,
)
from wms.wire.protocol import (
    API_V1,
    DRAIN,
    LEASE_ENDED,
    MAX_NAME,
    NO_TAILS,
    NOT_FOUND,
    PILOT_ENDED,
    PILOT_REVOKED,
    THROTTLE_BUSY,
    WHY_HEADER,
    Tails,
    Usage,
    output_sandbox_name,
)

#: Error codes that mean the end of a lease.
_ENDED = frozenset({LEASE_ENDED, PILOT_REVOKED, PILOT_ENDED})


@dataclass(frozen=True)
class NothingFits:
    """An empty match: no job fits the offer now, or (*is_proven* false) the server could not decide that in time."""

    retry_after_s: float | None
    #: Sentence: jobs that this pilot does not get because its queue is unknown; empty: none, or not given.
    why: str = ""
    is_proven: bool = True


@dataclass(frozen=True)
class MatchedJob:
    """A matched job with its lease, as in the answer to the offer."""

    match_id: str
    token: str
    job: LeasedJob
    data: JobData
    first: Renewal

    def lease(self, *, configuration: PilotConfiguration, wakeup: WakeupPipe) -> Lease:
        """Return the lease for the process of the job, which *wakeup* wakes."""
        return Lease(
            match_id=self.match_id,
            token=self.token,
            job=self.job,
            data=self.data,
            first=self.first,
            configuration=configuration,
            wakeup=wakeup,
        )


class Server:
    """Client of the REST interface; keeps the pilot's token, in memory only.

    Attributes:
        on_drain: called for each command to drain, possibly in the thread of the heartbeat, and again until it is
            acknowledged.
    """

    def __init__(self, client: Client, *, token: str) -> None:
        self._client = client
        self._token = token
        self._reports = 0
        self.on_drain: Callable[[], None] = lambda: None

    def register(self, description: Record) -> tuple[int, float | None]:
        """Exchange the token for that of one pilot; return the pilot's id and the lifetime of the token in seconds."""
        answer = self._client.call("POST", f"{API_V1}pilots/register/", token=self._token, body=description)
        fields = answer.record()
        self._token = json_fields.text(fields, "token")
        expires_at = json_fields.moment(fields, "expires_at")
        ahead_s = None if expires_at is None else answer.skew_s(now=expires_at.timestamp())
        return json_fields.whole(fields, "pilot", 0), ahead_s

    def configuration(self) -> tuple[PilotConfiguration, Answer]:
        """Return the configuration of the pilot, and the answer that contained it."""
        answer = self._client.call("GET", f"{API_V1}pilots/config/", token=self._token)
        return configuration.parse(answer.record(), asked_at=answer.sent_at), answer

    def report(self, body: Record) -> None:
        """Report the inspection of the node, or ``{"leaving": reason}``; the answer may renew the token."""
        answer = self._client.call("POST", f"{API_V1}pilots/report/", token=self._token, body=body)
        self._token = json_fields.text(answer.record(), "token", self._token)

    def log(self, *, offset: int, text: str, timeout_s: float) -> int:
        """Send text of the log from *offset* on; return the number of characters that the server has received."""
        body = {"offset": offset, "text": text}
        answer = self._client.call("POST", f"{API_V1}pilots/log/", token=self._token, body=body, timeout_s=timeout_s)
        return json_fields.whole(answer.record(), "received", 0)

    def submit_pools(self, *, site: str, ce: str, queue: str) -> tuple[str, ...]:
        """Return the submit pools of a batch queue (RFC7, getSubmitPoolsForQueue)."""
        query = urlencode({"site": site, "ce": ce, "queue": queue})
        answer = self._client.call("GET", f"{API_V1}submit-pools/?{query}", token=self._token)
        return json_fields.names(answer.record(), "submit_pools")

    def match(self, offer: Record) -> Sequence[MatchedJob] | NothingFits:
        """Request jobs; a repeated ``request_id`` returns the same leases, so that a lost answer loses no job."""
        try:
            answer = self._client.call("POST", f"{API_V1}matches/", token=self._token, body=offer)
        except UnreachableError as error:
            if error.code != THROTTLE_BUSY:
                raise
            return NothingFits(retry_after_s=error.retry_after_s, is_proven=False)
        if answer.status == HTTPStatus.NO_CONTENT:
            return NothingFits(retry_after_s=answer.retry_after_s(), why=answer.headers.get(WHY_HEADER, ""))
        return [
            MatchedJob(
                match_id=json_fields.text(data, "match_id"),
                token=json_fields.text(data, "token"),
                job=parse_job(json_fields.record(data.get("job"), "job")),
                data=parse_data(data),
                first=parse_renewal(data, sent_at=answer.sent_at),
            )
            for data in json_fields.records(answer.record(), "leases")
        ]

    def report_status(self, lease: Lease, *, status: str, minor: str | None = None) -> None:
        """Report the status of the job; renews the lease.

        Raises:
            LeaseEndedError: the lease is over.
        """
        body: dict[str, object] = {"status": status}
        if minor is not None:
            body["minor_status"] = minor
        lease.renew(self._report(lease, "status", body))

    def heartbeat(
        self,
        lease: Lease,
        *,
        usage: Usage,
        tails: Tails,
        acknowledged: Sequence[int],
        timeout_s: float | None = None,
    ) -> tuple[PilotCommand, ...]:
        """Renew the lease; return the commands that are not acknowledged yet.

        Raises:
            LeaseEndedError: the lease is over.
        """
        body: dict[str, object] = {**usage.as_record(), **tails.as_record(), "acknowledged": list(acknowledged)}
        renewal = self._report(lease, "heartbeat", body, timeout_s=timeout_s)
        lease.renew(renewal)
        return renewal.commands

    def finish(
        self,
        lease: Lease,
        *,
        exit_code: int | None,
        minor: str | None,
        usage: Usage,
        output: str | None,
        output_lost: bool = False,
        tails: Tails = NO_TAILS,
        fault: str | None = None,
    ) -> str:
        """Report the end of the job and return its status; idempotent.

        Raises:
            LeaseEndedError: the lease is over.
        """
        body: dict[str, object] = {"exit_code": exit_code, "usage": usage.as_record(), **tails.as_record()}
        if minor is not None:
            body["minor_status"] = minor[:MAX_NAME]
        if output is not None:
            body["output_sandbox"] = output
        if output_lost:
            body["output_lost"] = True
        if fault is not None:
            body["fault"] = fault
        answer = self._answer(lease, "finish", body, timeout_s=None)
        return json_fields.text(answer.record(), "status", "")

    def fetch(self, lease: Lease, *, digest: str, into: BinaryIO, max_bytes: int, give_up: Callable[[], bool]) -> None:
        """Fetch an input sandbox, with the token of the match."""
        path = f"{API_V1}matches/{lease.match_id}/sandboxes/{digest}/"
        with _end_noticed(not_found_too=False):
            self._client.download(path, token=lease.token, into=into, max_bytes=max_bytes, give_up=give_up)

    def store(self, lease: Lease, *, file: Path, give_up: Callable[[], bool]) -> str:
        """Store the output sandbox and return its reference."""
        path = f"{API_V1}matches/{lease.match_id}/sandboxes/"
        name = output_sandbox_name(lease.job.id)
        with _end_noticed(not_found_too=False):
            answer = self._client.upload(path, token=lease.token, file=file, file_name=name, give_up=give_up)
        return json_fields.text(answer.record(), "sandbox")

    def sandbox_place(self, lease: Lease) -> OutputDestination | None:
        """Return where an output sandbox goes that is too large for the server; None: no element serves the VO."""
        path = f"{API_V1}matches/{lease.match_id}/outputs/"
        with _end_noticed(not_found_too=False):
            return parse_place(self._client.call("GET", path, token=lease.token).record())

    def reserve_outputs(
        self, lease: Lease, files: Sequence[tuple[str, Content]], *, storage_element: str, exist: bool = False
    ) -> Sequence[GrantedName]:
        """Reserve the names of output files before they are stored, with the token of the match; idempotent.

        Args:
            lease: of the job.
            files: (logical name, content) of each.
            storage_element: where they will be stored.
            exist: whether it has other files of these names, which may not be replaced.
        """
        described = [
            {"lfn": lfn, "size_bytes": content.size_bytes, "checksum": content.checksum, "exists": exist}
            for lfn, content in files
        ]
        path, body = f"{API_V1}matches/{lease.match_id}/outputs/", {"storage_element": storage_element}
        with _end_noticed(not_found_too=False):
            answer = self._client.call("POST", path, token=lease.token, body={**body, "files": described})
        names = [parse_reserved(each) for each in json_fields.records(answer.record(), "files")]
        if [name.lfn for name in names] != [lfn for lfn, _ in files]:
            raise MalformedAnswerError("the answer does not have the names that were asked for")
        return names

    def register_replica(self, lease: Lease, lfn: str, content: Content, *, storage_element: str) -> None:
        """Register an output file that was stored, with the token of the match; idempotent."""
        path = f"{API_V1}matches/{lease.match_id}/replicas/"
        body = {"lfn": lfn, "storage_element": storage_element, **content._asdict()}
        with _end_noticed(not_found_too=False):
            self._client.call("POST", path, token=lease.token, body=body)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._client.close()

    def _report(self, lease: Lease, name: str, body: Record, *, timeout_s: float | None = None) -> Renewal:
        answer = self._answer(lease, name, body, timeout_s=timeout_s)
        renewal = parse_renewal(answer.record(), sent_at=answer.sent_at)
        if any(command.name == DRAIN for command in renewal.commands):
            self.on_drain()
        return renewal

    def _answer(self, lease: Lease, name: str, body: Record, *, timeout_s: float | None) -> Answer:
        """Report with one of the two tokens, in turns, because an answer renews only the token of its request."""
        self._reports += 1
        pilots_first = self._reports % 2 == 1
        path = f"{API_V1}matches/{lease.match_id}/{name}/"
        with _end_noticed(not_found_too=True):
            try:
                return self._report_as(lease, path, body, with_pilots=pilots_first, timeout_s=timeout_s)
            except RefusedError as error:
                if error.status != HTTPStatus.UNAUTHORIZED:
                    raise
                return self._report_as(lease, path, body, with_pilots=not pilots_first, timeout_s=timeout_s)

    def _report_as(
        self, lease: Lease, path: str, body: Record, *, with_pilots: bool, timeout_s: float | None
    ) -> Answer:
        token = self._token if with_pilots else lease.token
        answer = self._client.call("POST", path, token=token, body=body, timeout_s=timeout_s)
        renewed = json_fields.text(answer.record(), "token", token)
        if with_pilots:
            self._token = renewed
        else:
            lease.token = renewed
        return answer


@contextmanager
def _end_noticed(*, not_found_too: bool) -> Iterator[None]:
    """Replace refusals that mean the end of a lease by LeaseEndedError."""
    try:
        yield
    except RefusedError as error:
        gone = not_found_too and error.status == HTTPStatus.NOT_FOUND and error.code == NOT_FOUND
        if gone or error.status == HTTPStatus.UNAUTHORIZED or error.code in _ENDED:
            raise LeaseEndedError(str(error)) from error
        raise
