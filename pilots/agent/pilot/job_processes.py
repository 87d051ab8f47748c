"""The processes that work on the pilot's jobs, one each: started, waited for, and ended with all that they started."""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.job.payload import name_of_signal
from pilots.agent.pilot import job_task
from pilots.agent.pilot.drain import SIGNAL
from pilots.agent.pilot.job_task import JobTask

_KNOWN = range((job_task.LOOK_AT_NODE | job_task.CONTAINER_FAILED) + 1)


@dataclass(frozen=True)
class EndedTask:
    """A process that has ended.

    Attributes:
        task: what it worked on.
        status: its exit status; negative: the signal that ended it; None: it could not be started.
    """

    task: JobTask
    status: int | None

    def asks(self, what: int) -> bool:
        """Return whether its status has the part *what* (``child``)."""
        return not self.died and bool((self.status or 0) & what)

    @property
    def died(self) -> bool:
        """Whether it ended without having seen to its job's end."""
        return self.status is None or self.status not in _KNOWN

    @property
    def how(self) -> str:
        """Return how it ended, for people."""
        if self.status is None:
            return "could not be started"
        if self.status < 0:
            return f"was ended by {name_of_signal(-self.status)}"
        return f"ended with exit status {self.status}"


class JobProcesses:
    """All of them; used by the main thread of a process that has no other threads, for it forks."""

    def __init__(self, wakeup: WakeupPipe, *, work: Callable[[JobTask], int]) -> None:
        """Start nothing yet.

        Args:
            wakeup: rung when a process has ended.
            work: done in each process; returns its exit status.
        """
        self._wakeup = wakeup
        self._work = work
        self._running: dict[int, JobTask] = {}
        self._ended: deque[EndedTask] = deque()
        #: When the last of them ended.
        self.idle_since = monotonic()

    @property
    def running(self) -> Sequence[JobTask]:
        """Return what is being worked on."""
        return tuple(self._running.values())

    def listen(self) -> None:
        """Ring when a process ends, from now on."""
        # Only a signal with a handler rings.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def start(self, task: JobTask) -> None:
        """Work on it in a process of its own."""
        with _no_signals():
            try:
                pid = os.fork()
            except OSError as error:
                log.event("job.no_process", job=task.matched.job.id, error=error)
                self._ended.append(EndedTask(task, None))
                return
            if pid == 0:
                self._become(task)
            self._running[pid] = task

    def reap(self) -> None:
        """Note which have ended; also what a dead one left behind, which has come to this process."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            # Forgotten before its number can be another's: signals are passed on at any moment.
            task = self._running.pop(found.si_pid, None)
            _, status = os.waitpid(found.si_pid, 0)
            if task is not None:
                self.idle_since = monotonic()
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self._ended.append(EndedTask(task, code))

    def next_ended(self) -> EndedTask | None:
        """Return, once, one that has ended."""
        self.reap()
        return self._ended.popleft() if self._ended else None

    def pass_on(self, number: int) -> None:
        """Send a signal to all; also from a handler of signals.

        SIGKILL is not sent to a process that ends what a killed one has left: it was started after the others were
        killed, and only it hands the job back.
        """
        for pid, task in tuple(self._running.items()):
            if number == signal.SIGKILL and task.died_before is not None:
                continue
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def strays(self) -> tuple[tuple[int, int], ...]:
        """Return (process id, start time) of the processes below this one that belong to none of the running ones."""
        snapshot = processes.snapshot()
        adopted = [one for one in snapshot.values() if one.parent == os.getpid() and one.pid not in self._running]
        below = [each for one in adopted for each in processes.descendants(one.pid, snapshot)]
        return tuple((each.pid, each.started) for each in (*adopted, *below))

    def _become(self, task: JobTask) -> None:
        """Be the new process; never return."""
        status = job_task.FAULT
        try:
            self._forget_the_parent()
            status = self._work(task)
        except BaseException as error:  # noqa: BLE001 - the border of the process
            log.event(
                "agent.fault", job=task.matched.job.id, error=repr(error), traceback=traceback.format_exc()
            )  # fmt: skip
        finally:
            os._exit(status)

    def _forget_the_parent(self) -> None:
        self._running.clear()
        signal.set_wakeup_fd(-1)
        self._wakeup.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@contextmanager
def _no_signals() -> Iterator[None]:
    """Keep signals waiting: between fork() and the note of it nobody could pass them on.

    In the new process they wait until it has handlers of its own (``child``).
    """
    held = {*StopRequest.SIGNALS, SIGNAL}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
