"""What a pilot works with, the same for all its jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pilots.agent.bell import Bell, StopRequest
from pilots.agent.lease import STOPPED, Lease
from pilots.agent.persistence import Persistence
from pilots.agent.server import Server
from pilots.agent.storage import Storage

Result = TypeVar("Result")


@dataclass(frozen=True)
class Slot:
    """The server, the signals, and a directory."""

    server: Server
    bell: Bell
    stop: StopRequest
    persistence: Persistence
    storage: Storage
    work_directory: Path
    #: Between SIGTERM and SIGKILL, for a payload that is stopped.
    grace_s: float

    def order(self, lease: Lease) -> str | None:
        """Return why the job must stop, the strongest reason if there are several; else None."""
        return lease.order() or (STOPPED if self.stop else None)

    def insist(self, what: str, lease: Lease, attempt: Callable[[], Result]) -> Result:
        """Call again until it is answered, or the job must stop.

        Raises:
            UnreachableError, MalformedAnswerError, InterruptedCallError: it was not answered.
            Exception: what *attempt* raises else.
        """
        return self.persistence.call(
            what, attempt, until=lambda: lease.over_at, interrupted=lambda: self.order(lease) is not None
        )
