"""The execution of the payload: start, watch, and stop by command, at an exceeded limit or at the end of the lease."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pilots.agent.base import linux, log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.processes import Process
from pilots.agent.base.wakeup import StopRequest
from pilots.agent.job import isolation, user_helper
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.identity import Identity, NoIdentityError, Streams
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.memory_use import Memory, PayloadScope
from pilots.agent.job.payload import SIGNAL_BASE, End, NotStartedError, PayloadProcess
from pilots.agent.job.payload_records import PayloadRecord
from pilots.agent.job.preparation import NodeTroubleError, Program
from pilots.agent.job.watchdog import LimitVerdict, PayloadLimits, Watchdog
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import cgroups
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.lease import ENDED, STOPPED, Lease, LeasedJob
from wms.wire.protocol import Usage, WatchdogMargins

#: Processes and threads that the kernel allows for each process that the watchdog allows: many programs start a thread
#: for each core of the node. The watchdog ends a payload with a sentence; this is the wall between two of its looks.
_TASKS_PER_PROCESS = 10
#: Seconds of CPU time by which the kernel's limit of a single process exceeds the watchdog's limit of the payload.
_BEYOND_CPU_S = 60.0
#: Signal that the kernel sends when the pilot's main process ends.
_PARENT_ENDED = signal.SIGUSR2
#: Seconds: a batch system signals the processes of a slot one by one, possibly those of the payload first.
_SIGNALS_COME_WITHIN_S = 1.0
_STOPPED_BY_SIGNAL = frozenset(SIGNAL_BASE + number for number in StopRequest.SIGNALS)


@dataclass(frozen=True)
class PayloadOutcome:
    """The result of an execution.

    Attributes:
        end: of the payload's own process.
        reason: why it was stopped (lease.ENDED and so on); None: it was not.
        verdict: exceeded limit, if the watchdog stopped the payload.
        out_of_memory: sentence, if the kernel killed a process of the slot because memory ran out; else empty.
    """

    end: End
    reason: str | None = None
    verdict: LimitVerdict | None = None
    out_of_memory: str = ""


class MemoryMeter:
    """The memory of one payload: by its control group where the kernel counts it, else by processes and files."""

    def __init__(
        self,
        payload: PayloadProcess,
        identity: Identity,
        record: PayloadRecord,
        *,
        top: Path,
        nearly_mb: float,
        by_namespaces: bool,
    ) -> None:
        """Measure nothing yet.

        Args:
            payload: that has just started.
            identity: its user.
            record: of its processes.
            top: directory of the job.
            nearly_mb: memory from which on the measurement must be exact.
            by_namespaces: whether it has namespaces of its own.
        """
        self._payload, self._identity, self._record = payload, identity, record
        self._nearly_mb = nearly_mb
        files_of = -1 if by_namespaces and not identity.is_exclusive else identity.uid
        since = 0.0 if identity.is_exclusive else payload.started_at
        self._scope = PayloadScope([str(top)], files_of, since, *(payload.shared_memory if by_namespaces else ()))

    def read(self, payload_processes: Sequence[Process]) -> Memory:
        """Measure the payload, which has these processes."""
        counted_mb = self._payload.memory_mb()
        if counted_mb is not None:
            return Memory(counted_mb)
        if self._scope.uid >= 0 and not self._identity.is_exclusive and not self._record.is_alone():
            # From now on nothing tells its files from those that other payloads of this account leave.
            self._scope = self._scope._replace(uid=-1)
        return self._identity.memory(payload_processes, self._scope, limit_mb=self._nearly_mb)


class Execution:
    """One run of one program."""

    def __init__(
        self,
        context: JobContext,
        lease: Lease,
        *,
        configuration: PilotConfiguration,
        wall_left_s: float,
        speed: float,
        memory_share_mb: float,
    ) -> None:
        """Take the limits from the job and from the slot.

        Args:
            context: shared parts of the process of the job.
            lease: of the job.
            configuration: of the pilot.
            wall_left_s: seconds until the slot ends.
            speed: of the node's cores, relative to the reference core.
            memory_share_mb: the slot's memory for the processors of the job; 0: unknown.
        """
        self._context = context
        self._lease = lease
        self._configuration = configuration
        self._limits = limits_of(lease.job, configuration.watchdog, wall_left_s=wall_left_s, speed=speed)
        #: Of /dev/shm: a job that requires no memory is not limited, but its files there are.
        self._shared_memory_mb = memory_share_mb if math.isinf(self._limits.memory_mb) else self._limits.memory_mb
        self._watchdog: Watchdog | None = None
        self._parent_ended = False

    def usage(self) -> Usage:
        """Return the usage of the payload so far; thread-safe."""
        return Usage() if self._watchdog is None else self._watchdog.usage

    def run(
        self, program: Program, *, identity: Identity, workspace: Workspace, heartbeat: Heartbeat
    ) -> PayloadOutcome:
        """Run *program* to its end, until none of its processes is left.

        Raises:
            CannotRunError: it cannot run as the intended user, or its output cannot be written.
        """
        signal.signal(_PARENT_ENDED, self._on_parent_ended)
        if math.isfinite(self._limits.unasked_disk_mb):
            # Input files do not count.
            input_mb = user_helper.disk_usage_mb(str(workspace.job))
            self._limits = replace(self._limits, unasked_disk_mb=self._limits.unasked_disk_mb + input_mb)
        record = PayloadRecord(
            self._lease.match_id, account=identity.account, work_directory=self._context.work_directory,
            uid=identity.uid if identity.is_exclusive else 0,
        )  # fmt: skip
        parent_watched = linux.notified_of_the_end_of(self._context.parent, _PARENT_ENDED)
        with identity.inside(workspace, self._lease.job) as streams, record, parent_watched:
            payload = self._start(program, identity, workspace, streams, record)
            self._watchdog = self._watching(payload, identity, workspace, streams, record)
            log.event(
                "payload.started", job=self._lease.job.id, supervisor=payload.supervisor_pid, user=identity.uid,
                stalled_after_s=self._limits.stalled_s,
            )  # fmt: skip
            heartbeat.watch_output(streams)
            payload.note_processes()
            try:
                outcome = self._wait(payload, self._watchdog, heartbeat)
            finally:
                payload.close()
                heartbeat.end_output()
        usage = self._watchdog.close(cpu_s=outcome.end.cpu_s, max_memory_mb=outcome.end.max_memory_mb)
        return replace(outcome, out_of_memory=_why_out_of_memory(usage)) if outcome.end.out_of_memory else outcome

    def _start(
        self, program: Program, identity: Identity, workspace: Workspace, streams: Streams, record: PayloadRecord
    ) -> PayloadProcess:
        try:
            return PayloadProcess(
                program, identity=identity, workspace=workspace, streams=streams,
                max_cpu_s=self._limits.cpu_s + _BEYOND_CPU_S, record=record,
                max_tasks=self._limits.processes * _TASKS_PER_PROCESS,
                namespaces=self._namespaces(workspace, uid=identity.uid),
            )  # fmt: skip
        except NotStartedError as error:
            if identity.is_other:
                raise NoIdentityError(str(error)) from error
            raise NodeTroubleError(f"The payload could not be started: {error}") from error

    def _namespaces(self, workspace: Workspace, *, uid: int) -> Sequence[str]:
        if not isolation.by_namespaces(self._configuration.place):
            return ()
        return isolation.words(
            workspace, self._lease, uid=uid, work_directory=self._context.work_directory,
            hide=self._context.hidden, show=self._context.shown, shared_memory_mb=self._shared_memory_mb,
        )  # fmt: skip

    def _on_parent_ended(self, _number: int, _frame: FrameType | None) -> None:
        self._parent_ended = True

    def _leave_with_parent(self, payload: PayloadProcess) -> NoReturn:
        """End the payload and this process at once: without the pilot's main process the slot ends soon."""
        log.event("payload.stopping", job=self._lease.job.id, reason="the pilot was killed")
        payload.close()
        os._exit(1)

    def _watching(
        self,
        payload: PayloadProcess,
        identity: Identity,
        workspace: Workspace,
        streams: Streams,
        record: PayloadRecord,
    ) -> Watchdog:
        meter = MemoryMeter(
            payload, identity, record, top=workspace.top,
            nearly_mb=self._limits.memory_mb * self._limits.warning_fraction,
            by_namespaces=isolation.by_namespaces(self._configuration.place),
        )  # fmt: skip
        return Watchdog(
            self._limits,
            root=payload.supervisor_pid,
            directory=workspace.top,
            disk_mb=lambda payload_processes: identity.disk_mb(workspace, payload_processes),
            memory=meter.read,
            streams=list(dict.fromkeys((streams.stdout, streams.stderr))),
            look_every_s=self._configuration.look_every_s,
        )

    def _wait(self, payload: PayloadProcess, watchdog: Watchdog, heartbeat: Heartbeat) -> PayloadOutcome:
        reason: str | None = None
        verdict: LimitVerdict | None = None
        kill_at: float | None = None
        look_at = monotonic() + self._configuration.look_every_s
        while not payload.wait_for_end(self._context.wakeup, self._seconds_until(look_at, kill_at)):
            now = monotonic()
            if self._parent_ended:
                self._leave_with_parent(payload)
            if now >= look_at:
                payload.note_processes()
                verdict = verdict or self._look(watchdog, heartbeat)
                look_at = now + self._configuration.look_every_s
            stronger = self._context.stop_reason(self._lease)
            if kill_at is None and (stronger or verdict):
                reason = stronger
                log.event("payload.stopping", job=self._lease.job.id, reason=reason or (verdict and verdict.sentence))
                payload.terminate()
                kill_at = now + self._context.grace_s
            if stronger == ENDED:
                # The job may already run elsewhere: kill without a grace period.
                reason, kill_at = stronger, min(kill_at or now, now)
            if kill_at is not None and now >= kill_at:
                payload.kill()
                kill_at = now + self._context.grace_s
        end = payload.ended()
        if reason is None and verdict is None and self._was_stopped_with_the_pilot(end):
            reason = STOPPED
        # A reason that arrives when the payload has ended does not change the result.
        return PayloadOutcome(end, reason=reason, verdict=None if reason else verdict)

    def _was_stopped_with_the_pilot(self, end: End) -> bool:
        """Return whether the payload failed because the batch system stopped the whole slot.

        Slurm cancels a job by signalling each process, and a payload may then end with any exit code. A payload that
        failed by itself at that moment is run again, which is harmless.
        """
        if end.exit_code == 0 or end.error_number is not None:
            return False
        if end.exit_code in _STOPPED_BY_SIGNAL:
            give_up_at = monotonic() + _SIGNALS_COME_WITHIN_S
            while not self._context.stop and (left_s := give_up_at - monotonic()) > 0:
                self._context.wakeup.wait(left_s)
        return bool(self._context.stop)

    def _look(self, watchdog: Watchdog, heartbeat: Heartbeat) -> LimitVerdict | None:
        verdict = watchdog.look()
        for warning in watchdog.warnings() if verdict is None else ():
            log.event("payload.warned", job=self._lease.job.id, warning=warning)
            heartbeat.warn(warning)
        return verdict

    def _seconds_until(self, look_at: float, kill_at: float | None) -> float:
        now = monotonic()
        nearest = look_at if kill_at is None else min(look_at, kill_at)
        # The end of a lease wakes nobody, so it limits the sleep.
        return max(0.0, min(nearest - now, max(self._lease.seconds_until_stop(), 0.05)))


def _why_out_of_memory(usage: Usage) -> str:
    limit_mb = cgroups.memory_limit_mb(cgroups.read(cgroups.MEMBERSHIP), cgroups.ROOT)
    slot = "the node has no more" if limit_mb is None else f"the slot may use {limit_mb:.0f} MB"
    return f"memory ran out: {slot}, the job used {usage.memory_mb or 0.0:.1f} MB when it was last measured"


def stall_window_s(job: LeasedJob, margins: WatchdogMargins) -> float:
    """Return the seconds for which the payload may use hardly any CPU time; infinite: no limit.

    The value of the job replaces that of the place, up to the longest window of the place. A place that does not stop
    stalled payloads sets no longest window.
    """
    usual_s = margins.stalled_s or math.inf
    if job.stalled_s is None:
        return usual_s
    longest_s = max(margins.max_stalled_s, usual_s) if margins.max_stalled_s else math.inf
    return min(job.stalled_s or math.inf, longest_s)


def limits_of(job: LeasedJob, margins: WatchdogMargins, *, wall_left_s: float, speed: float) -> PayloadLimits:
    """Return the limits of the payload of *job*.

    Args:
        job: its CPU time is in seconds of a reference core (TQM).
        margins: from the server.
        wall_left_s: seconds until the slot ends.
        speed: of the node's cores. A slow core raises the CPU limit; a fast one does not lower it, for the
            measured speed is not exact.
    """
    return PayloadLimits(
        cpu_s=job.cpu_time_s * job.processors * margins.cpu_factor / min(1.0, speed),
        wall_s=wall_left_s,
        asked_wall_s=job.wall_time_s or math.inf,
        memory_mb=job.memory_mb * margins.memory_factor or math.inf,
        disk_mb=job.disk_mb or math.inf,
        unasked_disk_mb=math.inf if job.disk_mb else margins.unasked_disk_mb or math.inf,
        processes=margins.processes_per_core * job.processors or math.inf,
        stream_mb=margins.stream_max_mb or math.inf,
        min_free_disk_mb=margins.min_free_disk_mb,
        stalled_s=stall_window_s(job, margins),
        stalled_cpu_fraction=(
            margins.stalled_cpu_fraction if job.stalled_cpu_fraction is None else job.stalled_cpu_fraction
        ),
        stalled_warning_fraction=margins.stalled_warning_fraction,
        warning_fraction=margins.warning_fraction,
    )
