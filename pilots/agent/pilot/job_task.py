"""The process that works on one job: a copy of the pilot with one lease, made without exec (see job_processes.py).

It is a process of its own because whatever is left of a payload becomes its child, and is killed as such: several
payloads could not be told apart below one process.
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
from pilots.agent.job.completion import OF_SUPERVISOR
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.payload_records import Ending, PayloadRecord, remains_of
from pilots.agent.job.preparation import RESCHEDULE
from pilots.agent.job.wrapper import Wrapper
from pilots.agent.pilot import drain
from pilots.agent.pilot.options import Options
from pilots.agent.server.api import MatchedJob, Server, Usage
from pilots.agent.server.configuration import PilotConfiguration
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import Lease, LeaseEndedError
from pilots.agent.server.retry import Retry

#: Parts of the exit status: the pilot is to look at its node before its next job; the job's container did not start.
LOOK_AT_NODE = 1
CONTAINER_FAILED = 2
#: An error of the agent itself.
FAULT = 70
#: Between two looks at what is left of a payload.
_AGAIN_S = 0.05
#: Nothing more is done for a job whose process died: its lease runs out.
_HAND_BACK_S = 15.0


@dataclass(frozen=True)
class ProcessDeath:
    """A process that died before it had seen to its job's end.

    Attributes:
        how: it died, for people.
        strays: (process id, start time) of the processes that it left behind.
        times: how many processes of the job have died.
        asked_to: whether the pilot was asked to leave before, which may be why.
    """

    how: str
    strays: tuple[tuple[int, int], ...]
    times: int
    asked_to: bool = False

    @property
    def minor(self) -> str:
        """Return what the owner of the job is told."""
        return f"The pilot's process for the job {self.how}"

    @property
    def fault(self) -> str | None:
        """What the server is told of it when the job is handed back."""
        return None if self.asked_to else OF_SUPERVISOR


@dataclass(frozen=True)
class JobTask:
    """One job, and what is needed for it.

    Attributes:
        matched: the job.
        configuration: of the pilot.
        wall_left_s: until the slot ends.
        speed: of the node's cores; 1.0: as fast as the reference.
        gpus: of the slot's, those for this job.
        directory: of the job; not made yet.
        died_before: the process that had this task before and died; None: there was none.
    """

    matched: MatchedJob
    configuration: PilotConfiguration
    wall_left_s: float
    speed: float
    gpus: tuple[str, ...]
    directory: Path
    died_before: ProcessDeath | None = None


def run_task(task: JobTask, *, server: Server, storage: Storage, options: Options, parent: int) -> int:
    """Work on the job to its last report; return the exit status of this process, made of the parts above.

    Args:
        task: what to do.
        server: the parent's, of which this process has a copy; its connection is the parent's alone.
        storage: where data are.
        options: of the pilot.
        parent: this process is not to outlive.
    """
    if not linux.die_with(parent):
        return FAULT
    # NB: neither is inherited.
    linux.adopt_orphans()
    server.close()
    server.on_drain = drain.tell(parent)
    context = _context(server, storage, options, directory=task.directory, parent=parent)
    if task.died_before is not None:
        clean_up(context, task, task.died_before)
        return 0
    _show_gpus(task)
    lease = task.matched.lease(configuration=task.configuration, wakeup=context.wakeup)
    wrapper = Wrapper(context, lease, configuration=task.configuration, wall_left_s=task.wall_left_s, speed=task.speed)
    status = 0 if wrapper.run() else LOOK_AT_NODE
    return status | (CONTAINER_FAILED if wrapper.container_failed else 0)


def _context(server: Server, storage: Storage, options: Options, *, directory: Path, parent: int) -> JobContext:
    wakeup = WakeupPipe()

    def ring_later() -> None:
        # A payload goes on for some time after the signal: that it is over must wake the main thread too.
        signal.setitimer(signal.ITIMER_REAL, context.payload_may_go_on_s + 0.001)

    context = JobContext(
        server=server,
        wakeup=wakeup,
        stop=StopRequest(wakeup, at_once=ring_later),
        retry=Retry(wakeup),
        storage=storage,
        work_directory=options.work_dir,
        parent=parent,
        job_directory=directory,
        hidden=_hidden_from_payloads(options),
        shown=options.show,
        grace_s=options.grace_s,
        stop_within_s=options.stop_within_s,
    )
    for number in (signal.SIGALRM, drain.SIGNAL):
        # The latter is the pilot's business, and would end this process. Not ignored: payloads would inherit that.
        signal.signal(number, lambda _number, _frame: None)
    context.stop.listen()
    # They were kept waiting since before the fork.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return context


def _hidden_from_payloads(options: Options) -> tuple[Path, ...]:
    """Return what belongs to the pilot, and what its computing element says that payloads must not reach."""
    spool = options.work_dir.resolve().parent / output_spool.DIRECTORY_NAME
    of_all_pilots = [shared_directories.TMP / f"wms-{name}-{os.getuid()}" for name in ("accounts", "payloads")]
    # There a user may ask systemd to run something elsewhere.
    of_user = Path(f"/run/user/{os.getuid()}")
    token = () if options.token_left is None else (options.token_left,)
    return tuple(
        Path(each).absolute() for each in (*options.hide, *token, spool, options.work_dir, *of_all_pilots, of_user)
    )


def clean_up(context: JobContext, task: JobTask, died: ProcessDeath) -> None:
    """End what a process that died has left of its payload, and only then hand the job back.

    The lease is renewed meanwhile: while anything of the payload lives, the job is not given to another pilot.
    """
    lease = task.matched.lease(configuration=task.configuration, wakeup=context.wakeup)
    job = task.matched.job
    with Heartbeat(context.server, lease, every_s=task.configuration.heartbeat_s, usage=Usage):
        record = PayloadRecord(lease.match_id, account="", work_directory=context.work_directory)
        ending = Ending(remains_of(lease.match_id, strays=died.strays))
        while not ending.is_over():
            context.wakeup.wait(_AGAIN_S)
        record.remove()
        log.event("payload.ended", job=job.id)
        hand_back(context, lease, died=died)
    if not context.stop:  # else there may be no time for it, and a later pilot has
        stale_workspaces.remove(task.directory, accounts=task.configuration.place.payload_users)


def hand_back(context: JobContext, lease: Lease, *, died: ProcessDeath) -> None:
    """Give the job back to its queue; where the server does not answer, its lease runs out."""
    give_up_at = monotonic() + _HAND_BACK_S

    def once() -> str:
        with lease.reporting:
            status = context.server.finish(
                lease, exit_code=RESCHEDULE, minor=died.minor, usage=Usage(), output=None, fault=died.fault
            )
            lease.handed_back = True
        return status

    try:
        status = context.retry.call("job.hand_back", once, until=lambda: min(give_up_at, context.over_at))
        log.event("job.handed_back", job=lease.job.id, status=status)
    except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
        log.event("job.not_reported", job=lease.job.id, error=error)


def _show_gpus(task: JobTask) -> None:
    if task.matched.job.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(task.gpus)
