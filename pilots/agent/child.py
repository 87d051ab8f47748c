"""The process that works on one job: a copy of the pilot with one lease, made without exec (see crew.py).

It is a process of its own because whatever is left of a payload becomes its child, and is killed as such: several
payloads could not be told apart below one process.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pilots.agent import drain, linux
from pilots.agent.bell import Bell, StopRequest
from pilots.agent.configuration import Configuration
from pilots.agent.options import Options
from pilots.agent.persistence import Persistence
from pilots.agent.server import Grant, Server
from pilots.agent.slot import Slot
from pilots.agent.storage import Storage
from pilots.agent.wrapper import Wrapper

#: Parts of the exit status: what the pilot is to do before its next job.
LOOK_AT_NODE = 1
NO_CONTAINERS = 2
#: An error of the agent itself.
FAULT = 70


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
    """

    grant: Grant
    configuration: Configuration
    wall_left_s: float
    speed: float
    gpus: tuple[str, ...]
    directory: Path


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
    slot = _slot(server, storage, options, directory=errand.directory)
    _show_gpus(errand)
    lease = errand.grant.lease(configuration=errand.configuration, bell=slot.bell)
    wrapper = Wrapper(
        slot, lease, configuration=errand.configuration, wall_left_s=errand.wall_left_s, speed=errand.speed
    )
    status = 0 if wrapper.run() else LOOK_AT_NODE
    return status | (NO_CONTAINERS if wrapper.container_failed else 0)


def _slot(server: Server, storage: Storage, options: Options, *, directory: Path) -> Slot:
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
        job_directory=directory,
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


def _show_gpus(errand: Errand) -> None:
    if errand.grant.job.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(errand.gpus)
