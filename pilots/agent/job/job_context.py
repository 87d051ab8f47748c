"""What the process of one job works with."""

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

#: Of the time in which a pilot that was stopped hands its jobs back: what the last reports need.
_REPORTS_S = 5.0


@dataclass(frozen=True)
class JobContext:
    """The server, the signals, and a directory."""

    server: Server
    wakeup: WakeupPipe
    stop: StopRequest
    retry: Retry
    storage: Storage
    work_directory: Path
    #: The pilot's main process, whose child this one is.
    parent: int
    #: In it, for this job; not made yet.
    job_directory: Path
    #: From payloads that have mounts of their own.
    hidden: tuple[Path, ...]
    #: To them, wherever it is.
    shown: tuple[Path, ...]
    #: Between SIGTERM and SIGKILL, for a payload that is stopped.
    grace_s: float
    #: Between SIGTERM to the pilot and the last report on the job.
    stop_within_s: float

    @property
    def payload_may_go_on_s(self) -> float:
        """Return how long after SIGTERM to the pilot a payload may still run, for it may end by itself."""
        return max(0.0, self.stop_within_s - self.grace_s - _REPORTS_S)

    @property
    def over_at(self) -> float:
        """When this process must be done, by the pilot's clock, for it is killed then."""
        return math.inf if self.stop.asked_at is None else self.stop.asked_at + self.stop_within_s

    def order(self, lease: Lease) -> str | None:
        """Return why the job must stop, the strongest reason if there are several; else None."""
        return lease.order() or (STOPPED if self._is_stopped() else None)

    def insist(self, what: str, lease: Lease, attempt: Callable[[], Result]) -> Result:
        """Call again until it is answered, or the job must stop.

        Raises:
            UnreachableError, MalformedAnswerError, InterruptedCallError: it was not answered.
            Exception: what *attempt* raises else.
        """
        return self.retry.call(
            what, attempt, until=lambda: lease.over_at, interrupted=lambda: self.order(lease) is not None
        )

    def _is_stopped(self) -> bool:
        asked_at = self.stop.asked_at
        return asked_at is not None and monotonic() >= asked_at + self.payload_may_go_on_s
