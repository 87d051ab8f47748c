"""The process that works on one job: a copy of the pilot with one lease, made without exec (see job_processes.py).

It is a process of its own because whatever is left of a payload becomes its child, and is killed as such: several
payloads could not be told apart below one process.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import linux, log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import Bell, StopRequest
from pilots.agent.data.storage import Storage
from pilots.agent.job import isolation, stale_workspaces
from pilots.agent.job.completion import OF_SUPERVISOR
from pilots.agent.job.heartbeat import Heartbeat
from pilots.agent.job.job_context import Slot
from pilots.agent.job.payload_records import Ending, PayloadRecord, remains_of
from pilots.agent.job.preparation import RESCHEDULE
from pilots.agent.job.wrapper import Wrapper
from pilots.agent.pilot import drain
from pilots.agent.pilot.options import Options
from pilots.agent.server.api import Grant, Server, Usage
from pilots.agent.server.configuration import Configuration
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import Lease, LeaseEndedError
from pilots.agent.server.persistence import Persistence

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
class Died:
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
class Errand:
    """One job, and what is needed for it.

    Attributes:
        grant: the job.
        configuration: of the pilot.
        wall_left_s: until the slot ends.
        speed: of the node's cores; 1.0: as fast as the reference.
        gpus: of the slot's, those for this job.
        directory: of the job; not made yet.
        died_before: the process that had this errand before and died; None: there was none.
    """

    grant: Grant
    configuration: Configuration
    wall_left_s: float
    speed: float
    gpus: tuple[str, ...]
    directory: Path
    died_before: Died | None = None


def carry_out(errand: Errand, *, server: Server, storage: Storage, options: Options, parent: int) -> int:
    """Work on the job to its last report; return the exit status of this process, made of the parts above.

    Args:
        errand: what to do.
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
    slot = _slot(server, storage, options, directory=errand.directory, parent=parent)
    if errand.died_before is not None:
        clean_up(slot, errand, errand.died_before)
        return 0
    _show_gpus(errand)
    lease = errand.grant.lease(configuration=errand.configuration, bell=slot.bell)
    wrapper = Wrapper(
        slot, lease, configuration=errand.configuration, wall_left_s=errand.wall_left_s, speed=errand.speed
    )
    status = 0 if wrapper.run() else LOOK_AT_NODE
    return status | (CONTAINER_FAILED if wrapper.container_failed else 0)


def _slot(server: Server, storage: Storage, options: Options, *, directory: Path, parent: int) -> Slot:
    bell = Bell()

    def ring_later() -> None:
        # A payload goes on for some time after the signal: that it is over must wake the main thread too.
        signal.setitimer(signal.ITIMER_REAL, slot.payload_may_go_on_s + 0.001)

    slot = Slot(
        server=server,
        bell=bell,
        stop=StopRequest(bell, at_once=ring_later),
        persistence=Persistence(bell),
        storage=storage,
        work_directory=options.work_dir,
        parent=parent,
        job_directory=directory,
        hidden=isolation.hidden_from_payloads(options),
        shown=options.show,
        grace_s=options.grace_s,
        stop_within_s=options.stop_within_s,
    )
    for number in (signal.SIGALRM, drain.SIGNAL):
        # The latter is the pilot's business, and would end this process. Not ignored: payloads would inherit that.
        signal.signal(number, lambda _number, _frame: None)
    slot.stop.listen()
    # They were kept waiting since before the fork.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return slot


def clean_up(slot: Slot, errand: Errand, died: Died) -> None:
    """End what a process that died has left of its payload, and only then hand the job back.

    The lease is renewed meanwhile: while anything of the payload lives, the job is not given to another pilot.
    """
    lease = errand.grant.lease(configuration=errand.configuration, bell=slot.bell)
    job = errand.grant.job
    with Heartbeat(slot.server, lease, every_s=errand.configuration.heartbeat_s, usage=Usage):
        record = PayloadRecord(lease.match_id, account="", work_directory=slot.work_directory)
        ending = Ending(remains_of(lease.match_id, strays=died.strays))
        while not ending.is_over():
            slot.bell.wait(_AGAIN_S)
        record.remove()
        log.event("payload.ended", job=job.id)
        hand_back(slot, lease, died=died)
    if not slot.stop:  # else there may be no time for it, and a later pilot has
        stale_workspaces.remove(errand.directory, accounts=errand.configuration.place.payload_users)


def hand_back(slot: Slot, lease: Lease, *, died: Died) -> None:
    """Give the job back to its queue; where the server does not answer, its lease runs out."""
    give_up_at = monotonic() + _HAND_BACK_S

    def once() -> str:
        with lease.reporting:
            status = slot.server.finish(
                lease, exit_code=RESCHEDULE, minor=died.minor, usage=Usage(), output=None, fault=died.fault
            )
            lease.handed_back = True
        return status

    try:
        status = slot.persistence.call("job.hand_back", once, until=lambda: min(give_up_at, slot.over_at))
        log.event("job.handed_back", job=lease.job.id, status=status)
    except (LeaseEndedError, UnreachableError, MalformedAnswerError, RefusedError) as error:
        log.event("job.not_reported", job=lease.job.id, error=error)


def _show_gpus(errand: Errand) -> None:
    if errand.grant.job.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(errand.gpus)
