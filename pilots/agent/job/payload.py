"""The processes of a payload: started, signalled and ended by its supervisor (see payload_supervisor.py)."""

from __future__ import annotations

import json
import math
import os
import pkgutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.job.identity import Identity, Streams
from pilots.agent.job.payload_records import PayloadRecord
from pilots.agent.job.preparation import Program
from pilots.agent.job.scripts import last_line, start
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import cgroups
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError

#: Bytes of a message of the supervisor.
_MAX_LINE_BYTES = 4096
#: Seconds until the supervisor has started: sudo may query a slow user directory of the site.
_SUPERVISOR_BEGINS_WITHIN_S = 60.0
#: Seconds until the supervisor has ended after its last message.
_SUPERVISOR_ENDS_WITHIN_S = 5.0
#: Seconds for all processes to end after SIGKILL; later only those remain that wait for a device or file server.
_ALL_END_WITHIN_S = 60.0
#: Seconds between two signals to processes that are being killed.
_AGAIN_S = 0.02
#: Exit code 128 + n: ended by signal n, as in a shell.
SIGNAL_BASE = 128


@dataclass(frozen=True)
class End:
    """The end of a payload.

    Attributes:
        exit_code: as in a shell (128 + n for signal n); None: unknown because its supervisor was killed.
        signal_number: of the signal that ended it; None: no signal.
        error_number: errno, if it could not be started.
        cpu_s: of all its processes; None: unknown.
        max_memory_mb: of its largest process; None: unknown.
        out_of_memory: whether the kernel has meanwhile killed a process of the slot because memory ran out.
    """

    exit_code: int | None = None
    signal_number: int | None = None
    error_number: int | None = None
    cpu_s: float | None = None
    max_memory_mb: float | None = None
    out_of_memory: bool = False


class NotStartedError(Exception):
    """The supervisor did not start, so the payload was not run."""


class PayloadProcess:
    """One running payload with all its processes; used by the main thread only."""

    def __init__(
        self,
        program: Program,
        *,
        identity: Identity,
        workspace: Workspace,
        streams: Streams,
        max_cpu_s: float,
        max_tasks: float,
        record: PayloadRecord,
        namespaces: Sequence[str] = (),
    ) -> None:
        """Start the supervisor and the payload.

        Args:
            program: to run.
            identity: user of the payload.
            workspace: of the job.
            streams: descriptors of its output, which the caller closes.
            max_cpu_s: limit of any single process, set in the kernel.
            max_tasks: limit of its processes and threads, set in the kernel where it counts them for each payload.
            record: of the payload's processes.
            namespaces: first words of the command line of a payload with namespaces of its own.

        Raises:
            NotStartedError: the payload was not run.
        """
        self._identity, self._record = identity, record
        #: Seconds since the epoch, as in the times of files.
        self.started_at = time.time()
        self._group: Path | None = None
        self._kill_sent, self._supervisor_pid, self._killed_before = False, 0, 0
        #: Descriptors of /dev/shm and /proc/sysvipc/shm in the payload's namespaces; fewer where the node lacks them.
        self.shared_memory: Sequence[int] = ()
        command = _supervisor_command(workspace, identity, namespaces)
        self._wire, supervisors = socket.socketpair()
        with supervisors, tempfile.TemporaryFile() as complaints:
            stderr = complaints.fileno() if identity.is_other or namespaces else None
            self._top = start(command, wire=supervisors, stderr=stderr)
            supervisors.close()
            self._request_start(program, streams, max_cpu_s=max_cpu_s, max_tasks=max_tasks)
            try:
                self._begin(max_tasks)
            except (OSError, ValueError, MalformedAnswerError):
                self.close()
                raise NotStartedError(last_line(complaints) or "its supervisor gave no answer") from None

    @property
    def supervisor_pid(self) -> int:
        """Return the process id of the supervisor, whose descendants are the payload's processes."""
        return self._supervisor_pid

    def memory_mb(self) -> float | None:
        """Return the memory of the payload by its control group; None: the kernel does not count it."""
        return None if self._group is None else cgroups.held_memory_mb(self._group)

    def note_processes(self) -> None:
        """Record the payload's processes, so that they can be ended if the supervisor is killed."""
        below = processes.descendants(self._supervisor_pid, processes.snapshot())
        self._record.note((process.pid, process.started) for process in below)

    def wait_for_end(self, wakeup: WakeupPipe, timeout_s: float) -> bool:
        """Sleep until the payload ends, *wakeup* is used or *timeout_s* is over; return whether it has ended."""
        return wakeup.wait(timeout_s, also=self._wire)

    def ended(self) -> End:
        """Return the end of a payload that has ended, and end whatever is left of it."""
        try:
            end = _end_of(self._receive())
        except (OSError, ValueError, MalformedAnswerError):
            end = End()
        end = replace(end, out_of_memory=self._killed_for_memory() > self._killed_before)
        self.close()
        return end

    def terminate(self) -> None:
        """Send SIGTERM to every process of the payload."""
        self._send(b"T")

    def kill(self) -> None:
        """Kill every process of the payload; the second call also kills its supervisor, which it may have stopped."""
        if self._kill_sent:
            self._identity.kill([self._supervisor_pid])
            self._wake()
        self._kill_sent = True
        self._send(b"K")

    def close(self) -> None:
        """End all processes that are left and wait for their end."""
        self._wire.close()
        for descriptor in self.shared_memory:
            os.close(descriptor)
        self.shared_memory = ()
        self._wake()
        with suppress(subprocess.TimeoutExpired):
            self._top.wait(_SUPERVISOR_ENDS_WITHIN_S)
        # A payload may have stopped or killed the supervisor; descendants of a killed one are adopted by this process.
        accept_at = monotonic() + _ALL_END_WITHIN_S
        while left := processes.descendants(os.getpid(), processes.snapshot()):
            if monotonic() > accept_at:
                alive = [process for process in left if not processes.is_being_killed(process.pid)]
                log.event("payload.not_killed", processes=len(left), alive=len(alive))
                if not alive:
                    break
                # The job is not reported while its payload could still run; heartbeats renew the lease.
                accept_at += _ALL_END_WITHIN_S
            if self._group is not None:
                cgroups.kill(self._group)
            self._identity.kill([process.pid for process in left])
            processes.reap_orphans()
            time.sleep(_AGAIN_S)
        if self._group is not None:
            cgroups.remove(self._group)

    def _begin(self, max_tasks: float) -> None:
        """Wait for the supervisor, and have it start the payload."""
        self._wire.settimeout(_SUPERVISOR_BEGINS_WITHIN_S)
        first, self.shared_memory, _, _ = socket.recv_fds(self._wire, 1, 2)
        self._supervisor_pid = json_fields.whole(self._receive(first), "supervisor")
        self._wire.settimeout(None)
        self._make_group(max_tasks)
        self._killed_before = self._killed_for_memory()
        self._send(b"G")

    def _make_group(self, max_tasks: float) -> None:
        group = cgroups.make_group(f"wms-payload-{self._record.match_id}")
        if group is not None and cgroups.add_to(group, self._supervisor_pid):
            self._group = group
            if math.isfinite(max_tasks):
                cgroups.limit_tasks(group, int(max_tasks))
            self._record.note_group(group)
        elif group is not None:
            cgroups.remove(group)

    def _wake(self) -> None:
        """Continue sudo, which stops itself when the payload stops the supervisor, so that it sees the end."""
        with suppress(OSError):
            self._top.send_signal(signal.SIGCONT)

    def _request_start(self, program: Program, streams: Streams, *, max_cpu_s: float, max_tasks: float) -> None:
        request = {
            "uid": self._identity.uid,
            "executable": str(program.executable),
            "arguments": list(program.arguments),
            "environment": dict(program.environment),
            "directory": str(program.directory),
            "max_cpu_s": math.ceil(max_cpu_s) if math.isfinite(max_cpu_s) else None,
            "max_tasks": int(max_tasks) if math.isfinite(max_tasks) else None,
            "is_other": self._identity.is_other,
            "is_exclusive": self._identity.is_exclusive,
        }
        with suppress(OSError):  # it has ended, so there will be no answer
            socket.send_fds(self._wire, [b"F"], [streams.stdout, streams.stderr])
        self._send(json.dumps(request).encode() + b"\n")

    def _killed_for_memory(self) -> int:
        return cgroups.killed_for_memory(cgroups.read(cgroups.MEMBERSHIP), cgroups.ROOT, group=self._group)

    def _receive(self, line: bytes = b"") -> json_fields.Record:
        """Return the next message of the supervisor, whose beginning may have been received."""
        # Byte by byte: the next message may follow already.
        while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES and (byte := self._wire.recv(1)):
            line += byte
        return json_fields.record(json.loads(line))

    def _send(self, message: bytes) -> None:
        with suppress(OSError):  # the supervisor has ended, which ended() finds
            self._wire.sendall(message)


def _supervisor_command(workspace: Workspace, identity: Identity, namespaces: Sequence[str]) -> Sequence[str]:
    script = workspace.tools / "payload_supervisor.py"
    script.write_bytes(pkgutil.get_data("pilots.agent.job", "payload_supervisor.py") or b"")
    script.chmod(0o644)
    return [*namespaces, str(script)] if namespaces else identity.command(script)


def _end_of(message: json_fields.Record) -> End:
    if "error" in message:
        return End(error_number=json_fields.whole(message, "error"))
    status = json_fields.whole(message, "status")
    cpu_s, max_memory_mb = json_fields.number(message, "cpu_s"), json_fields.number(message, "max_memory_mb")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return End(exit_code=SIGNAL_BASE + number, signal_number=number, cpu_s=cpu_s, max_memory_mb=max_memory_mb)
    return End(exit_code=os.WEXITSTATUS(status), cpu_s=cpu_s, max_memory_mb=max_memory_mb)


def name_of_signal(number: int) -> str:
    """Return the name of a signal, ``SIGKILL`` for 9, or the number if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
