"""What every kind of computing element can be asked to do; each kind is one file beside this one.

Nothing here knows the database: directors commit what they are about to do, call these, and commit what came of it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class BackendError(Exception):
    """The computing element cannot be used as it is; the sentence is for its operator."""


class Presence(StrEnum):
    """Where a pilot is, as its batch system says."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    #: The batch system does not say; that is not the end of the pilot.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """What a batch system says of one pilot."""

    presence: Presence
    #: Of a pilot that has ended, negative for the signal that ended it; None: not known.
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot that is to be started, with the secret that it exchanges for its token."""

    stamp: str
    secret: str = field(repr=False)
    vo: str
    site: str
    ce: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What came of one order: the pilot's id in the batch system, or why there is none."""

    stamp: str
    batch_id: str = ""
    error: str = ""


class Backend(Protocol):
    """One computing element."""

    def configure(self, options: Mapping[str, object]) -> None:
        """Take the CE's options, before each use.

        Raises:
            BackendError: an option is unknown or wrong.
        """

    def capacity(self) -> int:
        """Return how many pilots it could take now."""

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submission]:
        """Start the pilots; one that cannot be started keeps none of the others back."""

    def status(self, batch_ids: Collection[str]) -> Mapping[str, BatchState]:
        """Return where the pilots are, in one call; one that is missing is unknown."""

    def kill(self, batch_ids: Collection[str]) -> None:
        """End the pilots at once; those that have ended are no mistake."""

    def close(self) -> None:
        """Let go of everything: the director is leaving."""
