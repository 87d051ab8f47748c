"""The processes of jobs, one for each: started, signalled and reaped by the pilot."""

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

_REGULAR_STATUSES = range((job_task.LOOK_AT_NODE | job_task.CONTAINER_FAILED) + 1)


@dataclass(frozen=True)
class EndedTask:
    """An ended process of a job.

    Attributes:
        task: of the process.
        status: its exit status; negative: the signal that ended it; None: it could not be started.
    """

    task: JobTask
    status: int | None

    def has_flag(self, flag: int) -> bool:
        """Return whether its exit status contains *flag* (see job_task.py)."""
        return not self.died and bool((self.status or 0) & flag)

    @property
    def died(self) -> bool:
        """Return whether it ended before the end of its job was handled."""
        return self.status is None or self.status not in _REGULAR_STATUSES

    @property
    def how(self) -> str:
        """Return a clause that says how it ended."""
        if self.status is None:
            return "could not be started"
        if self.status < 0:
            return f"was ended by {name_of_signal(-self.status)}"
        return f"ended with exit status {self.status}"


class JobProcesses:
    """All processes of jobs; for a process with one thread, because it forks."""

    def __init__(self, wakeup: WakeupPipe, *, work: Callable[[JobTask], int]) -> None:
        """Start nothing yet.

        Args:
            wakeup: used when a process has ended.
            work: executed in each process; returns its exit status.
        """
        self._wakeup = wakeup
        self._work = work
        self._running: dict[int, JobTask] = {}
        self._ended: deque[EndedTask] = deque()
        #: Monotonic time of the last end of a process.
        self.idle_since = monotonic()

    @property
    def running(self) -> Sequence[JobTask]:
        """Return the tasks of the running processes."""
        return tuple(self._running.values())

    def listen(self) -> None:
        """Wake the main thread when a process ends, from now on."""
        # Only signals with a handler wake it.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def start(self, task: JobTask) -> None:
        """Start a process for the task."""
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
        """Reap ended processes, also orphans that this process has adopted."""
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if child is None:
                return
            # Removed before the process id can be reused, because signals are sent at any moment.
            task = self._running.pop(child.si_pid, None)
            _, status = os.waitpid(child.si_pid, 0)
            if task is not None:
                self.idle_since = monotonic()
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self._ended.append(EndedTask(task, code))

    def next_ended(self) -> EndedTask | None:
        """Return an ended process that was not returned before; None: there is none."""
        self.reap()
        return self._ended.popleft() if self._ended else None

    def pass_on(self, number: int) -> None:
        """Send a signal to all processes; may be called in a signal handler.

        SIGKILL is not sent to processes that clean up after a killed one, because only they hand its job back.
        """
        for pid, task in tuple(self._running.items()):
            if number == signal.SIGKILL and task.died_before is not None:
                continue
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def orphans(self) -> tuple[tuple[int, int], ...]:
        """Return (process id, start time) of the processes below this one that no running task owns."""
        snapshot = processes.snapshot()
        children = [each for each in snapshot.values() if each.parent == os.getpid()]
        adopted = [child for child in children if child.pid not in self._running]
        below = [each for child in adopted for each in processes.descendants(child.pid, snapshot)]
        return tuple((each.pid, each.started) for each in (*adopted, *below))

    def _become(self, task: JobTask) -> None:
        """Run the task in the new process; never return."""
        status = job_task.FAULT
        try:
            self._forget_the_parent()
            status = self._work(task)
        except BaseException as error:  # noqa: BLE001 - the outermost handler of the process
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
    """Block signals between fork() and the record of the new process, to which they must be passed on.

    In the new process they stay blocked until it has its own handlers (see job_task.py).
    """
    held = {*StopRequest.SIGNALS, SIGNAL}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
