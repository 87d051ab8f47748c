"""The lease: one matched job, the time for which the match is valid, and commands of the server."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.server import json_fields
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.job_data import JobData
from pilots.agent.server.json_fields import Record
from wms.wire.amounts import AMOUNTS, RequiredAmounts
from wms.wire.protocol import DRAIN, KILL, PEEK, SANDBOX_PREFIX

#: Reasons why a payload is stopped from outside, the strongest first.
ENDED = "the lease has ended"
EXPIRING = "the lease could not be renewed in time"
KILLED = "killed by order"
STOPPED = "the pilot was stopped"


class LeaseEndedError(Exception):
    """The lease is no longer open at the server; its job may already run elsewhere."""


@dataclass(frozen=True)
class SandboxReference:
    """An input sandbox: a file or an archive."""

    digest: str
    file_name: str
    is_archive: bool
    size_bytes: int


@dataclass(frozen=True)
class _DescribedJob:
    # Apart, because fields without a default must come first, and Python 3.9 has none that are given by name only.

    id: int
    owner: str
    job_name: str
    executable: str
    arguments: str
    cpu_time_s: int
    #: Window of the stall rule in seconds; 0: none; None: that of the queue, VO or server.
    stalled_s: int | None
    #: CPU time per wall-clock time, as a fraction of one core, below which it is stalled; None: as above.
    stalled_cpu_fraction: float | None
    #: Container image; empty: none.
    container: str
    software: tuple[str, ...]
    tags: tuple[str, ...]
    input_sandboxes: tuple[SandboxReference, ...]
    output_sandbox: tuple[str, ...]
    #: Storage element for the output; empty: not given.
    output_se: str
    std_output: str
    std_error: str
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LeasedJob(RequiredAmounts, _DescribedJob):
    """The fields of a job's description that the pilot needs; docs/descriptions.md lists all."""


@dataclass(frozen=True)
class PilotCommand:
    """A command of the server, repeated until it is acknowledged."""

    id: int
    name: str


@dataclass(frozen=True)
class Renewal:
    """The answer to a report: the new end of the lease, and open commands."""

    sent_at: float
    expires_at: datetime | None
    commands: tuple[PilotCommand, ...]


class Lease:
    """One lease, shared by the wrapper (main thread) and the heartbeat (its own thread)."""

    def __init__(
        self,
        *,
        match_id: str,
        token: str,
        job: LeasedJob,
        data: JobData,
        first: Renewal,
        configuration: PilotConfiguration,
        wakeup: WakeupPipe,
    ) -> None:
        self.match_id = match_id
        self.token = token
        self.job = job
        self.data = data
        self._configuration = configuration
        self._wakeup = wakeup
        self._lock = threading.Lock()
        #: Held by each heartbeat and by reports that end the lease: a heartbeat that arrives after such a report would
        #: be refused, which looks like an error in the server's log.
        self.reporting = threading.Lock()
        #: Set under ``reporting`` when the report that ends the lease has arrived: nothing is renewed any more.
        self.handed_back = False
        self._ended: str | None = None
        self._kills: list[int] = []
        self._other_commands: list[int] = []
        self._seen: set[int] = set()
        self._peek = False
        self._renewed_at = first.sent_at
        self._over_at = first.sent_at + self._length_s(first, longest_s=configuration.lease_first_s)

    def stop_reason(self) -> str | None:
        """Return why the payload must be stopped, the strongest reason if there are several; else None."""
        with self._lock:
            if self._ended is not None:
                return ENDED
            if monotonic() >= self._stop_at():
                return EXPIRING
            return KILLED if self._kills else None

    @property
    def over_at(self) -> float:
        """Return the monotonic time at which the lease ends unless it is renewed."""
        with self._lock:
            return self._over_at

    def seconds_until_stop(self) -> float:
        """Return the seconds for which a payload may still run without a renewal."""
        with self._lock:
            return self._stop_at() - monotonic()

    def end(self, reason: str) -> None:
        """Record that the server has ended the lease."""
        with self._lock:
            self._ended = self._ended or reason
        self._wakeup.wake()

    def renew(self, renewal: Renewal) -> None:
        """Apply the answer to a report."""
        with self._lock:
            # Two threads report, and their answers may arrive in another order: the last report sent counts.
            if renewal.sent_at >= self._renewed_at:
                self._renewed_at = renewal.sent_at
                self._over_at = renewal.sent_at + self._length_s(renewal, longest_s=self._configuration.lease_s)
            new = {command.id: command for command in renewal.commands if command.id not in self._seen}
            for command in new.values():
                self._take(command)
        if new:
            self._wakeup.wake()

    def kills(self) -> Sequence[int]:
        """Return the ids of commands to kill, to be acknowledged when the payload has ended."""
        with self._lock:
            return tuple(self._kills)

    def to_acknowledge(self) -> Sequence[int]:
        """Return the ids of other commands that were carried out; call acknowledged() when they are reported."""
        with self._lock:
            return tuple(self._other_commands)

    def acknowledged(self, ids: Sequence[int]) -> None:
        """Remove commands whose acknowledgement has arrived."""
        with self._lock:
            self._other_commands = [each for each in self._other_commands if each not in ids]

    def take_peek(self) -> bool:
        """Return whether a command to peek has arrived since the last call."""
        with self._lock:
            is_wanted, self._peek = self._peek, False
            return is_wanted

    def _take(self, command: PilotCommand) -> None:
        self._seen.add(command.id)
        if command.name == KILL:
            self._kills.append(command.id)
        else:
            self._other_commands.append(command.id)
            self._peek = self._peek or command.name == PEEK
        event = "command.received" if command.name in {KILL, PEEK, DRAIN} else "command.unknown"
        log.event(event, job=self.job.id, command=command.name, id=command.id)

    def _stop_at(self) -> float:
        # Half of it at most: with very short leases every payload would be stopped at once otherwise.
        return self._over_at - min(self._configuration.lease_grace_s, self._configuration.lease_s / 2)

    def _length_s(self, renewal: Renewal, *, longest_s: float) -> float:
        """Return the seconds that the lease lasts from the sending of the request, at most *longest_s*.

        The server's time at that moment follows from server_time in the configuration.
        """
        server_time = self._configuration.server_time
        if server_time is None or renewal.expires_at is None:
            return longest_s
        server_now_s = server_time.timestamp() + renewal.sent_at - self._configuration.asked_at
        left_s = renewal.expires_at.timestamp() - server_now_s
        if left_s <= 0:  # renewed but over: one of the two clocks has been set meanwhile
            return longest_s
        return min(left_s, longest_s)


def parse_job(data: Record) -> LeasedJob:
    """Return the job in an answer to a match.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    environment = json_fields.optional_record(data, "environment")
    return LeasedJob(
        id=json_fields.whole(data, "id"),
        owner=json_fields.text(data, "owner", ""),
        job_name=json_fields.text(data, "job_name", ""),
        executable=json_fields.text(data, "executable"),
        arguments=json_fields.text(data, "arguments", ""),
        cpu_time_s=json_fields.whole(data, "cpu_time_s", 86400),
        **{amount.name: json_fields.whole(data, amount.name, amount.least) for amount in AMOUNTS},
        stalled_s=None if data.get("stalled_s") is None else json_fields.whole(data, "stalled_s"),
        stalled_cpu_fraction=(
            None if data.get("stalled_cpu_fraction") is None else json_fields.number(data, "stalled_cpu_fraction")
        ),
        container=json_fields.text(data, "container", ""),
        software=json_fields.names(data, "software"),
        tags=json_fields.names(data, "tags"),
        input_sandboxes=tuple(_input(each) for each in json_fields.records(data, "input_sandboxes")),
        output_sandbox=json_fields.names(data, "output_sandbox"),
        output_se=json_fields.text(data, "output_se", ""),
        std_output=json_fields.text(data, "std_output", "std.out"),
        std_error=json_fields.text(data, "std_error", "std.err"),
        environment=tuple((name, json_fields.text(environment, name)) for name in environment),
    )


def parse_renewal(data: Record, *, sent_at: float) -> Renewal:
    """Return the renewal in an answer.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    commands = tuple(
        PilotCommand(id=json_fields.whole(each, "id"), name=json_fields.text(each, "name"))
        for each in json_fields.records(data, "commands")
    )
    return Renewal(sent_at=sent_at, expires_at=json_fields.moment(data, "expires_at"), commands=commands)


def _input(data: Record) -> SandboxReference:
    reference = json_fields.text(data, "sandbox")
    return SandboxReference(
        digest=reference.removeprefix(SANDBOX_PREFIX),
        file_name=json_fields.text(data, "file_name"),
        is_archive=data.get("is_archive") is True,
        size_bytes=json_fields.whole(data, "size_bytes"),
    )
