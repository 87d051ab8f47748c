"""What every kind of computing element can be asked to do; each kind is one file beside this one.

Nothing here knows the database: directors commit what they are about to do, call these, and commit what came of it. A
backend is made for each round at its CE and keeps nothing between two: any process may serve any CE.

To add a kind (ARC's REST interface and HTCondor-CE are the next): write a class with the methods of ``Backend`` in a
file here and name it in the setting ``WMS_BACKENDS``. One that can look into its batch system may be ``Doubting`` too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec


class BackendError(Exception):
    """The computing element cannot be used as it is; the sentence is for its operator."""

    def __init__(self, sentence: str) -> None:
        # It may quote what some program wrote, and PostgreSQL stores no NUL.
        super().__init__(sentence.replace("\0", "\N{REPLACEMENT CHARACTER}"))


class Presence(StrEnum):
    """Where a pilot is, as its batch system says."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    #: The batch system does not say; that is not the end of the pilot.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """What a batch system says of one pilot.

    Args:
        presence: where it is.
        batch_id: by which the batch system knows it; empty when it does not.
        exit_code: of a pilot that has ended, negative for the signal that ended it; None: not known.
        reason: why it waits, or how it ended, in the batch system's own words.
        by_system: the batch system ended it (preemption, limits, cancellation), or its node failed.
    """

    presence: Presence
    batch_id: str = ""
    exit_code: int | None = None
    reason: str = ""
    by_system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What is asked of the batch system for one pilot (PIL §2.3 (iii)).

    Args:
        queue: name of the batch queue, or partition.
        wall_time_s: from the pilot's start to its end; None: as long as the batch queue gives.
        processors: cores.
        memory_mb: of all of them together; 0: says nothing.
        gpus: number.
        disk_mb: scratch; 0: says nothing.
        platforms: of which the node must be one; empty: any.
        tags: that the node must have.
    """

    queue: str
    wall_time_s: int | None = None
    processors: int = 1
    memory_mb: int = 0
    gpus: int = 0
    disk_mb: int = 0
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, object]) -> "BatchRequest":
        """Return the slot that was stored as JSON."""
        return msgspec.convert(stored, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot that is to be submitted, with the secret that it exchanges for its token.

    The secret goes to the pilot by a file of mode 0600 or by standard input, never on a command line or in an
    environment, which others on the node can read (DESIGN §3.7).
    """

    stamp: str
    secret: str = field(repr=False)
    vo: str
    site: str
    ce: str
    queue: str
    slot: BatchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A pilot that was submitted: its stamp, which names it in the batch system, and its id there, if that is known."""

    stamp: str
    batch_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """What came of one order: the pilot's id in the batch system, or why there is none.

    Neither is told when the answer was lost: the pilot may be there, and a later ``status`` finds it by its stamp.
    """

    stamp: str
    batch_id: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQueue:
    """A batch queue of the CE.

    Args:
        slot: that its pilots ask for; the smallest, when they ask for several.
        cpu_time_s: promised to jobs there, in CPU seconds of a reference core.
    """

    slot: BatchRequest
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CEDescription:
    """What a backend is made of.

    Args:
        site, ce: names.
        options: of the CE, as configured; the backend refuses those that it does not know.
        directory: of the server, for this CE alone; made by whoever needs it.
        server_url: where pilots reach the server.
        hidden: directories of the server that payloads on its own machine must not reach.
        queues: that take pilots; none: they are not known, and a slot is one core.
    """

    site: str
    ce: str
    options: Mapping[str, object]
    directory: Path
    server_url: str
    hidden: Sequence[Path] = ()
    queues: Sequence[BatchQueue] = ()


class Backend(Protocol):
    """One computing element. Every method may raise ``BackendError``, and ends within a time of its own."""

    def __init__(self, description: CEDescription) -> None:
        """Take the description, without a word to the CE.

        Raises:
            BackendError: an option is unknown or wrong.
        """

    def capacity(self) -> int:
        """Return how many pilots, with the slots that its queues' pilots ask for, it could start or let wait now."""

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots; one that is refused keeps none of the others back.

        A pilot whose stamp the batch system knows already is not submitted again.
        """

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return {stamp: where the pilot is}, in one call to the CE; one that is missing is unknown."""

    def kill(self, handles: Collection[Handle]) -> None:
        """End the pilots at once; those that have ended are no mistake."""

    def output(self, handle: Handle) -> str:
        """Return what the pilot wrote to standard output and error, as far as it can be had; at most the last MB."""

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove what pilots that have ended left at the CE, but not their output before it is 30 days old."""


@runtime_checkable
class Doubting(Protocol):
    """What a backend has, beside the above, that can tell whether its CE keeps what the queues promise."""

    def doubts(self) -> Sequence[str]:
        """Return a sentence for each queue whose pilots cannot do there what is said of it."""
