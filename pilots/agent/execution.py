"""The payload while it runs: started, watched, and stopped when something outside wants it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pilots.agent import log
from pilots.agent.clock import monotonic
from pilots.agent.configuration import Configuration
from pilots.agent.heartbeat import Heartbeat, tail_of
from pilots.agent.lease import ENDED, Lease
from pilots.agent.payload import End, Payload, Program
from pilots.agent.preparation import CannotRunError
from pilots.agent.server import Usage
from pilots.agent.slot import Slot
from pilots.agent.watchdog import PayloadLimits, Watchdog
from pilots.agent.workspace import Workspace


@dataclass(frozen=True)
class Outcome:
    """How the execution ended.

    Attributes:
        end: of the payload's own process.
        reason: why it was stopped (lease.ENDED and so on); None: it was not.
        verdict: what it had done wrong, when the watchdog stopped it.
    """

    end: End
    reason: str | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Streams:
    """Descriptors of standard output and error; one and the same when they share a file."""

    stdout: int
    stderr: int


class Execution:
    """One run of one program."""

    def __init__(self, slot: Slot, lease: Lease, *, configuration: Configuration, wall_left_s: float) -> None:
        """Take the limits from the job and from the slot.

        Args:
            slot: what the pilot works with.
            lease: of the job.
            configuration: of the pilot.
            wall_left_s: until the slot ends.
        """
        self._slot = slot
        self._lease = lease
        self._configuration = configuration
        job = lease.job
        self._limits = PayloadLimits(
            cpu_s=job.cpu_time_s * job.processors * configuration.cpu_factor,
            wall_s=wall_left_s,
            asked_wall_s=job.wall_time_s,
        )
        self._watchdog: Watchdog | None = None
        #: Of standard output, when the payload has ended; None: it was not started.
        self.last_lines: str | None = None

    def usage(self) -> Usage:
        """Return what the payload has used so far; for the heartbeat's thread too."""
        return Usage() if self._watchdog is None else self._watchdog.usage

    def run(self, program: Program, *, workspace: Workspace, heartbeat: Heartbeat) -> Outcome:
        """Run *program* to its end; nothing of it is left afterwards.

        Raises:
            CannotRunError: its output has no place.
        """
        with _streams(self._lease, workspace) as streams:
            payload = Payload(program, scratch=workspace.scratch, stdout=streams.stdout, stderr=streams.stderr)
            self._watchdog = Watchdog(self._limits, directory=workspace.top, root=payload.warden_pid)
            log.event("payload.started", job=self._lease.job.id, warden=payload.warden_pid)
            heartbeat.watch_output(streams.stdout)
            try:
                outcome = self._wait(payload, self._watchdog)
            finally:
                payload.close()
                heartbeat.watch_output(None)
                self.last_lines = tail_of(streams.stdout)
        self._watchdog.close(cpu_s=outcome.end.cpu_s, max_memory_mb=outcome.end.max_memory_mb)
        return outcome

    def _wait(self, payload: Payload, watchdog: Watchdog) -> Outcome:
        reason: str | None = None
        verdict: str | None = None
        kill_at: float | None = None
        look_at = monotonic() + self._configuration.look_every_s
        while not payload.wait_for_end(self._slot.bell, self._seconds_until(look_at, kill_at)):
            now = monotonic()
            if now >= look_at:
                verdict = verdict or watchdog.look()
                look_at = now + self._configuration.look_every_s
            stronger = self._slot.order(self._lease)
            if kill_at is None and (stronger or verdict):
                reason = stronger
                log.event("payload.stopping", job=self._lease.job.id, reason=reason or verdict)
                payload.terminate()
                kill_at = now + self._slot.grace_s
            if stronger == ENDED:
                # Its job may already run elsewhere: there is no time for manners.
                reason, kill_at = stronger, min(kill_at or now, now)
            if kill_at is not None and now >= kill_at:
                payload.kill()
                kill_at = now + self._slot.grace_s
        end = payload.ended()
        # An order that came together with the payload's own end changes nothing of how it ended.
        return Outcome(end, reason=reason, verdict=None if reason else verdict)

    def _seconds_until(self, look_at: float, kill_at: float | None) -> float:
        now = monotonic()
        nearest = look_at if kill_at is None else min(look_at, kill_at)
        # A lease ends by the clock: nobody rings then.
        return max(0.0, min(nearest - now, max(self._lease.seconds_until_stop(), 0.05)))


@contextmanager
def _streams(lease: Lease, workspace: Workspace) -> Iterator[Streams]:
    """Open the files of standard output and error, empty."""
    stdout = _open(lease.job.std_output, workspace.job)
    try:
        shared = Path(lease.job.std_output) == Path(lease.job.std_error)
        stderr = stdout if shared else _open(lease.job.std_error, workspace.job)
        try:
            yield Streams(stdout, stderr)
        finally:
            if not shared:
                os.close(stderr)
    finally:
        os.close(stdout)


def _open(name: str, directory: Path) -> int:
    path = directory / name
    # Appending: two writers to one file then never overwrite each other, and a file that was emptied stays small.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        if name.startswith("/") or ".." in Path(name).parts:
            raise CannotRunError(None, f"Output would leave the job's directory: {name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise CannotRunError(None, f"Output cannot be written to {name}: {error.strerror}") from error
