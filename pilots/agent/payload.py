"""The payload's processes: started below a warden, stopped through it (see warden.py)."""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pilots.agent import fields, processes
from pilots.agent.bell import Bell
from pilots.agent.clock import monotonic
from pilots.agent.fields import MalformedAnswerError

_MAX_LINE_BYTES = 4096
_WARDEN_ENDS_WITHIN_S = 5.0
#: As a shell says it.
SIGNAL_BASE = 128


@dataclass(frozen=True)
class Program:
    """What is to be executed, all of it resolved."""

    executable: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path


@dataclass(frozen=True)
class End:
    """How a payload ended.

    Attributes:
        exit_code: as a shell says it (128 + n for signal n); None when nobody knows, its warden having been killed.
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


class Payload:
    """One running payload with all its processes; used by the main thread only."""

    def __init__(self, program: Program, *, scratch: Path, stdout: int, stderr: int) -> None:
        """Start it.

        Args:
            program: what to run.
            scratch: a directory that the payload does not use.
            stdout, stderr: descriptors of its output; they stay the caller's.
        """
        script = scratch / "warden.py"
        script.write_bytes(pkgutil.get_data("pilots.agent", "warden.py") or b"")
        self.started_at = monotonic()
        self._kill_asked = False
        self._wire, wardens = socket.socketpair()
        with wardens:
            self._warden = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable or "python3", "-I", "-S", str(script)],
                stdin=wardens.fileno(),
                stdout=subprocess.DEVNULL,
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
                pass_fds=sorted({stdout, stderr}),
            )
        order = {
            "executable": str(program.executable),
            "arguments": list(program.arguments),
            "environment": dict(program.environment),
            "directory": str(program.directory),
            "stdout": stdout,
            "stderr": stderr,
        }
        self._send(json.dumps(order).encode() + b"\n")

    @property
    def warden_pid(self) -> int:
        """Return the process whose descendants the payload's are."""
        return self._warden.pid

    def wait_for_end(self, bell: Bell, timeout_s: float) -> bool:
        """Sleep until the payload has ended, the bell rings or the time is over; return whether it has ended."""
        return bell.wait(timeout_s, also=self._wire)

    def ended(self) -> End:
        """Return how the payload ended; to be called when it has: nothing of it is left then."""
        line = b""
        try:
            while not line.endswith(b"\n") and (part := self._wire.recv(_MAX_LINE_BYTES)):
                line += part
            said = fields.record(json.loads(line))
            end = _end_of(said)
        except (OSError, ValueError, MalformedAnswerError):
            end = End()
        self.close()
        return end

    def terminate(self) -> None:
        """Ask every process of the payload to end."""
        self._send(b"T")

    def kill(self) -> None:
        """End every process of the payload; said again, also its warden, which the payload may have stopped."""
        if self._kill_asked:
            self._warden.kill()
        self._kill_asked = True
        self._send(b"K")

    def close(self) -> None:
        """End whatever is left, and wait for it."""
        self._wire.close()
        try:
            self._warden.wait(timeout=_WARDEN_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._warden.kill()
            self._warden.wait()
        # The warden's own descendants come to this process when the payload has killed the warden.
        while processes.kill_descendants(os.getpid()):
            processes.reap_orphans()

    def _send(self, message: bytes) -> None:
        with suppress(OSError):  # the warden is gone, which ended() will tell
            self._wire.sendall(message)


def _end_of(said: fields.Record) -> End:
    if "error" in said:
        return End(error_number=fields.whole(said, "error"))
    status = fields.whole(said, "status")
    cpu_s, max_memory_mb = fields.number(said, "cpu_s"), fields.number(said, "max_memory_mb")
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
