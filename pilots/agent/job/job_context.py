"""The context of a job: shared parts that every step of its process needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import StopRequest, WakeupPipe
from pilots.agent.data.storage import Storage
from pilots.agent.server.api import Server
from pilots.agent.server.lease import STOPPED, Lease
from pilots.agent.server.retry import Retry

Result = TypeVar("Result")

#: Seconds reserved for the last reports when the pilot is stopped.
_REPORTS_S = 5.0


@dataclass(frozen=True)
class JobContext:
    """Server, signals, storage and directories of the process of one job."""

    server: Server
    wakeup: WakeupPipe
    stop: StopRequest
    retry: Retry
    storage: Storage
    work_directory: Path
    #: The pilot's main process, whose child this one is.
    parent: int
    #: Directory for this job in ``work_directory``; not made yet.
    job_directory: Path
    #: Directory for output that cannot be delivered; not made yet.
    spool: Path
    #: Hidden from payloads that have a mount namespace.
    hidden: tuple[Path, ...]
    #: Visible to these payloads even below a hidden directory.
    shown: tuple[Path, ...]
    #: Seconds between SIGTERM and SIGKILL to a payload.
    grace_s: float
    #: Seconds between SIGTERM to the pilot and the final report of the job.
    stop_within_s: float

    @property
    def payload_may_go_on_s(self) -> float:
        """Return the seconds after SIGTERM to the pilot for which a payload may still run."""
        return max(0.0, self.stop_within_s - self.grace_s - _REPORTS_S)

    @property
    def over_at(self) -> float:
        """Return the monotonic time at which this process is killed."""
        return math.inf if self.stop.asked_at is None else self.stop.asked_at + self.stop_within_s

    def stop_reason(self, lease: Lease) -> str | None:
        """Return the strongest reason why the job must stop, else None."""
        return lease.stop_reason() or (STOPPED if self._is_stopped() else None)

    def repeat(self, what: str, lease: Lease, attempt: Callable[[], Result]) -> Result:
        """Repeat a call until it is answered or the job must stop.

        Raises:
            UnreachableError, MalformedAnswerError, InterruptedCallError: there was no valid answer.
            Exception: any other error of *attempt*.
        """
        return self.retry.call(
            what, attempt, until=lambda: lease.over_at, interrupted=lambda: self.stop_reason(lease) is not None
        )

    def _is_stopped(self) -> bool:
        asked_at = self.stop.asked_at
        return asked_at is not None and monotonic() >= asked_at + self.payload_may_go_on_s
