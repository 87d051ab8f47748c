"""The payload's processes: started below a supervisor, stopped through it (see payload_supervisor.py)."""

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
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.job.identity import Identity, Streams, last_line, start
from pilots.agent.job.payload_records import PayloadRecord
from pilots.agent.job.preparation import Program
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import cgroups
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError

_MAX_LINE_BYTES = 4096
#: Sudo may have to ask a directory of the site who the users are.
_WARDEN_BEGINS_WITHIN_S = 60.0
_WARDEN_ENDS_WITHIN_S = 5.0
#: One that is still there waits for a device or a file server that does not answer; even SIGKILL waits for that.
_ALL_END_WITHIN_S = 60.0
_AGAIN_S = 0.02
#: As a shell says it.
SIGNAL_BASE = 128


@dataclass(frozen=True)
class End:
    """How a payload ended.

    Attributes:
        exit_code: as a shell says it (128 + n for signal n); None when nobody knows, its supervisor having been killed.
        signal_number: that ended it, if one did.
        error_number: of the system, when it could not be started at all.
        cpu_s: of all its processes; None: not known.
        max_memory_mb: of its largest process; None: not known.
    """

    exit_code: int | None = None
    signal_number: int | None = None
    error_number: int | None = None
    cpu_s: float | None = None
    max_memory_mb: float | None = None


class NotStartedError(Exception):
    """There is no supervisor, so nothing was run."""


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
        record: PayloadRecord,
        namespaces: Sequence[str] = (),
    ) -> None:
        """Start it.

        Args:
            program: what to run.
            identity: whose processes they are to be.
            workspace: of the job.
            streams: descriptors of its output; they stay the caller's.
            max_cpu_s: of any single process, if nobody stops it earlier.
            record: of the payload's processes.
            namespaces: words that begin the command line of a payload that has namespaces of its own.

        Raises:
            NotStartedError: nothing was run.
        """
        script = workspace.tools / "payload_supervisor.py"
        script.write_bytes(pkgutil.get_data("pilots.agent.job", "payload_supervisor.py") or b"")
        script.chmod(0o644)
        self._identity = identity
        self._record = record
        self._group: Path | None = None
        self._kill_asked = False
        self._supervisor_pid = 0
        self._wire, supervisors = socket.socketpair()
        with supervisors, tempfile.TemporaryFile() as complaints:
            stderr = complaints.fileno() if identity.is_other or namespaces else None
            command = [*namespaces, str(script)] if namespaces else identity.command(script)
            self._top = start(command, wire=supervisors, stderr=stderr)
            supervisors.close()
            self._order(program, streams, max_cpu_s=max_cpu_s)
            try:
                self._wire.settimeout(_WARDEN_BEGINS_WITHIN_S)
                self._supervisor_pid = json_fields.whole(self._said(), "supervisor")
                self._wire.settimeout(None)
                self._make_group()
                self._send(b"G")
            except (OSError, ValueError, MalformedAnswerError):
                self.close()
                raise NotStartedError(last_line(complaints) or "its supervisor gave no answer") from None

    @property
    def supervisor_pid(self) -> int:
        """Return the process whose descendants the payload's are."""
        return self._supervisor_pid

    def note_processes(self) -> None:
        """Record the payload's processes, for whoever has to end them when all supervisors were killed."""
        below = processes.descendants(self._supervisor_pid, processes.snapshot())
        self._record.note((process.pid, process.started) for process in below)

    def wait_for_end(self, wakeup: WakeupPipe, timeout_s: float) -> bool:
        """Sleep until the payload has ended, it is woken or the time is over; return whether it has ended."""
        return wakeup.wait(timeout_s, also=self._wire)

    def ended(self) -> End:
        """Return how the payload ended; to be called when it has: nothing of it is left then."""
        try:
            end = _end_of(self._said())
        except (OSError, ValueError, MalformedAnswerError):
            end = End()
        self.close()
        return end

    def terminate(self) -> None:
        """Ask every process of the payload to end."""
        self._send(b"T")

    def kill(self) -> None:
        """End every process of the payload; said again, also its supervisor, which the payload may have stopped."""
        if self._kill_asked:
            self._identity.kill([self._supervisor_pid])
            self._wake()
        self._kill_asked = True
        self._send(b"K")

    def close(self) -> None:
        """End whatever is left, and wait for it."""
        self._wire.close()
        self._wake()
        with suppress(subprocess.TimeoutExpired):
            self._top.wait(_WARDEN_ENDS_WITHIN_S)
        # The supervisor may have been stopped; its descendants come to this process when the payload has killed it.
        accept_at = monotonic() + _ALL_END_WITHIN_S
        while left := processes.descendants(os.getpid(), processes.snapshot()):
            if monotonic() > accept_at:
                alive = [process for process in left if not processes.is_being_killed(process.pid)]
                log.event("payload.not_killed", processes=len(left), alive=len(alive))
                if not alive:
                    break
                # The job is not reported while its payload could go on: heartbeats keep the lease meanwhile.
                accept_at += _ALL_END_WITHIN_S
            if self._group is not None:
                cgroups.kill(self._group)
            self._identity.kill([process.pid for process in left])
            processes.reap_orphans()
            time.sleep(_AGAIN_S)
        if self._group is not None:
            cgroups.remove(self._group)

    def _make_group(self) -> None:
        group = cgroups.make_group(f"wms-payload-{self._record.match_id}")
        if group is not None and cgroups.add_to(group, self._supervisor_pid):
            self._group = group
            self._record.note_group(group)
        elif group is not None:
            cgroups.remove(group)

    def _wake(self) -> None:
        """Let sudo see that its command has ended: it stops itself when the payload stops the supervisor."""
        with suppress(OSError):
            self._top.send_signal(signal.SIGCONT)

    def _order(self, program: Program, streams: Streams, *, max_cpu_s: float) -> None:
        order = {
            "uid": self._identity.uid,
            "executable": str(program.executable),
            "arguments": list(program.arguments),
            "environment": dict(program.environment),
            "directory": str(program.directory),
            "max_cpu_s": math.ceil(max_cpu_s) if math.isfinite(max_cpu_s) else None,
        }
        with suppress(OSError):  # there is no supervisor, which its silence will tell
            socket.send_fds(self._wire, [b"F"], [streams.stdout, streams.stderr])
        self._send(json.dumps(order).encode() + b"\n")

    def _said(self) -> json_fields.Record:
        """Return the next thing that the supervisor says."""
        line = b""
        # Not a byte more: the payload may have ended already.
        while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES and (byte := self._wire.recv(1)):
            line += byte
        return json_fields.record(json.loads(line))

    def _send(self, message: bytes) -> None:
        with suppress(OSError):  # the supervisor is gone, which ended() will tell
            self._wire.sendall(message)


def _end_of(said: json_fields.Record) -> End:
    if "error" in said:
        return End(error_number=json_fields.whole(said, "error"))
    status = json_fields.whole(said, "status")
    cpu_s, max_memory_mb = json_fields.number(said, "cpu_s"), json_fields.number(said, "max_memory_mb")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return End(exit_code=SIGNAL_BASE + number, signal_number=number, cpu_s=cpu_s, max_memory_mb=max_memory_mb)
    return End(exit_code=os.WEXITSTATUS(status), cpu_s=cpu_s, max_memory_mb=max_memory_mb)


def name_of_signal(number: int) -> str:
    """Return ``SIGKILL`` for 9; a number that has no name as it is."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
