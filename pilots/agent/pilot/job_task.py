"""The process of one job: a fork of the pilot with one lease, without exec (see job_processes.py).

Each job has a process because orphans of its payload become children of that process, and are killed as such. Orphans
of several payloads below one process could not be distinguished.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import linux, log, shared_directories
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.data import output_spool
from pilots.agent.data.storage import Storage
from pilots.agent.job import stale_workspaces
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.payload_records import Ending, PayloadRecord, remains_of
from pilots.agent.job.wrapper import Wrapper
from pilots.agent.node import gpus
from pilots.agent.pilot import drain
from pilots.agent.pilot.options import Options
from pilots.agent.server.api import MatchedJob, Server
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import Lease, LeaseEndedError
from pilots.agent.server.retry import Retry
from wms.wire.protocol import FAULT_OF_SUPERVISOR, RESCHEDULE_EXIT_CODE, Usage

#: Flags of the exit status: inspect the node before the next job; the job's container did not start.
LOOK_AT_NODE = 1
CONTAINER_FAILED = 2
#: Exit status: an error of the agent itself.
FAULT = 70
#: Seconds between two checks for processes that are left of a payload.
_AGAIN_S = 0.05
#: Seconds for handing back a job whose process died; after that its lease expires.
_HAND_BACK_S = 15.0


@dataclass(frozen=True)
class ProcessDeath:
    """The death of a process before the end of its job was handled.

    Attributes:
        how: clause that says how it ended.
        orphans: (process id, start time) of the processes that it left behind.
        times: number of processes of the job that have died.
        asked_to: True if the pilot was stopped before, which may be the cause.
    """

    how: str
    orphans: tuple[tuple[int, int], ...]
    times: int
    asked_to: bool = False

    @property
    def minor(self) -> str:
        """Return the minor status of the job."""
        return f"The pilot's process for the job {self.how}"

    @property
    def fault(self) -> str | None:
        """Return the fault that is reported when the job is handed back."""
        return None if self.asked_to else FAULT_OF_SUPERVISOR


@dataclass(frozen=True)
class JobTask:
    """One job with the resources assigned to it.

    Attributes:
        matched: the job and its lease.
        configuration: of the pilot.
        wall_left_s: seconds until the slot ends.
        speed: of the node's cores, relative to the reference core.
        memory_share_mb: the slot's memory for the processors of the job; 0: unknown.
        gpus: GPUs of the slot that are assigned to this job.
        directory: of the job; not made yet.
        died_before: death of an earlier process of this job; None: there was none.
    """

    matched: MatchedJob
    configuration: PilotConfiguration
    wall_left_s: float
    speed: float
    memory_share_mb: float
    gpus: tuple[str, ...]
    directory: Path
    died_before: ProcessDeath | None = None


def run_task(task: JobTask, *, server: Server, storage: Storage, options: Options, parent: int) -> int:
    """Run the job to its final report; return the exit status of this process, made of the flags above.

    Args:
        task: the job.
        server: copy of the parent's, whose connection must not be used here.
        storage: for input and output data.
        options: of the pilot.
        parent: process id of the pilot; this process ends with it.
    """
    if not linux.die_with(parent):
        return FAULT
    # NB: not inherited from the parent.
    linux.adopt_orphans()
    server.close()
    server.on_drain = drain.signal_to(parent)
    context = _context(server, storage, options, directory=task.directory, parent=parent)
    if task.died_before is not None:
        clean_up(context, task, task.died_before)
        return 0
    if task.matched.job.gpus:
        gpus.show_only(task.gpus, os.environ)
    lease = task.matched.lease(configuration=task.configuration, wakeup=context.wakeup)
    wrapper = Wrapper(
        context, lease, configuration=task.configuration, wall_left_s=task.wall_left_s, speed=task.speed,
        memory_share_mb=task.memory_share_mb,
    )  # fmt: skip
    status = 0 if wrapper.run() else LOOK_AT_NODE
    return status | (CONTAINER_FAILED if wrapper.container_failed else 0)


def _context(server: Server, storage: Storage, options: Options, *, directory: Path, parent: int) -> JobContext:
    wakeup = WakeupPipe()

    def wake_later() -> None:
        # A payload may run on for some time after the signal; the timer wakes the main thread at its end.
        signal.setitimer(signal.ITIMER_REAL, context.payload_may_go_on_s + 0.001)

    spool = output_spool.directory_of(options.work_dir, server=options.server)
    context = JobContext(
        server=server,
        wakeup=wakeup,
        stop=StopRequest(wakeup, at_once=wake_later),
        retry=Retry(wakeup),
        storage=storage,
        work_directory=options.work_dir,
        parent=parent,
        job_directory=directory,
        spool=spool,
        hidden=_hidden_from_payloads(options, spool),
        shown=options.show,
        grace_s=options.grace_s,
        stop_within_s=options.stop_within_s,
    )
    for number in (signal.SIGALRM, drain.SIGNAL):
        # By default they would end this process. A handler instead of SIG_IGN, which payloads would inherit.
        signal.signal(number, lambda _number, _frame: None)
    context.stop.listen()
    # Signals have been blocked since before the fork.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return context


def _hidden_from_payloads(options: Options, spool: Path) -> tuple[Path, ...]:
    """Return the pilot's own paths and those of --hide, which payloads must not reach."""
    of_all_pilots = [shared_directories.TMP / f"wms-{name}-{os.getuid()}" for name in ("accounts", "payloads")]
    # Its socket lets a user start processes outside by systemd.
    of_user = Path(f"/run/user/{os.getuid()}")
    token = () if options.token_left is None else (options.token_left,)
    return tuple(
        Path(each).absolute() for each in (*options.hide, *token, spool, options.work_dir, *of_all_pilots, of_user)
    )


def clean_up(context: JobContext, task: JobTask, died: ProcessDeath) -> None:
    """End all processes of a payload whose supervising process died, then hand the job back.

    Heartbeats renew the lease meanwhile, so that the job is not leased to another pilot while its payload runs.
    """
    lease = task.matched.lease(configuration=task.configuration, wakeup=context.wakeup)
    job = task.matched.job
    with Heartbeat(context.server, lease, every_s=task.configuration.heartbeat_s, usage=Usage):
        record = PayloadRecord(lease.match_id, account="", work_directory=context.work_directory)
        ending = Ending(remains_of(lease.match_id, orphans=died.orphans))
        while not ending.is_over():
            context.wakeup.wait(_AGAIN_S)
        record.remove()
        log.event("payload.ended", job=job.id)
        hand_back(context, lease, died=died)
    if not context.stop:  # a stopped pilot has no time; a later pilot removes it
        stale_workspaces.remove(task.directory, accounts=task.configuration.place.payload_users)


def hand_back(context: JobContext, lease: Lease, *, died: ProcessDeath) -> None:
    """Report that the job is to run again; if the server does not answer, its lease expires."""
    give_up_at = monotonic() + _HAND_BACK_S

    def once() -> str:
        with lease.reporting:
            status = context.server.finish(
                lease, exit_code=RESCHEDULE_EXIT_CODE, minor=died.minor, usage=Usage(), output=None, fault=died.fault
            )
            lease.handed_back = True
        return status

    try:
        status = context.retry.call("job.hand_back", once, until=lambda: min(give_up_at, context.over_at))
        log.event("job.handed_back", job=lease.job.id, status=status)
    except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
        log.event("job.not_reported", job=lease.job.id, error=error)
