"""The interface of backends; each kind of computing element has one, in a file of this directory.

Backends do not use the database: directors commit their plans, call a backend, and commit the results. A backend is
created for each round at its CE and keeps no state between rounds, so any process may serve any CE.

To add a kind (ARC's REST interface and HTCondor-CE are the next): write a class with the methods of ``Backend`` in a
file here and add it to the setting ``WMS_BACKENDS``. One that can compare its batch system with the queues has the
method of ``ChecksQueues`` too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import msgspec

from wms.wire.amounts import DividedAmounts

#: A pilot's id in its batch system, as the database takes it.
BatchId = Annotated[str, msgspec.Meta(max_length=255, pattern="^[ -~]*$")]


class BackendError(Exception):
    """The computing element cannot be used; the sentence is for its operator."""

    def __init__(self, sentence: str) -> None:
        # The sentence may quote output of a program, and PostgreSQL stores no NUL.
        super().__init__(sentence.replace("\0", "\N{REPLACEMENT CHARACTER}"))


class Presence(StrEnum):
    """State of a pilot in its batch system."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    #: The batch system does not report the pilot; it has not necessarily ended.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The state of one pilot, as its batch system reports it.

    Args:
        presence: the state.
        batch_id: the pilot's id in the batch system; empty if not known.
        exit_code: of an ended pilot, negative for a signal; None: not known.
        reason: the batch system's reason why it waits or how it ended.
        by_system: the batch system ended it (preemption, limits, cancellation), or its node failed.
    """

    presence: Presence
    batch_id: BatchId = ""
    exit_code: int | None = None
    reason: str = ""
    by_system: bool = False


def by_stamp(states: Iterable[tuple[str, BatchState]]) -> dict[str, BatchState]:
    """Return {stamp: state}; of several jobs of one stamp, one that has not ended counts, else the last."""
    chosen: dict[str, BatchState] = {}
    for stamp, state in states:
        if stamp not in chosen or chosen[stamp].presence is Presence.ENDED:
            chosen[stamp] = state
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest(DividedAmounts):
    """The resources requested from the batch system for one pilot (PIL §2.3 (iii)).

    Args:
        queue: name of the batch queue, or partition.
        wall_time_s: from the pilot's start to its end; None: the limit of the batch queue.
        memory_mb: of all cores together; 0: not requested, as for the other amounts.
        platforms: the node must have one of them; empty: any.
        tags: the node must have all of them.
    """

    queue: str
    wall_time_s: int | None = None
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, object]) -> "BatchRequest":
        """Return the request stored as JSON."""
        return msgspec.convert(stored, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot to be submitted, with the secret that it exchanges for its token.

    The secret goes to the pilot in a file of mode 0600 or by standard input. It must not be on a command line or in an
    environment, which others on the node can read.
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
    """A submitted pilot: its stamp, which names it in the batch system, and its id there, if known."""

    stamp: str
    batch_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """The result of one order: the pilot's id in the batch system, or an error.

    Both are empty if the reply was lost: the pilot may exist, and a later ``status`` finds it by its stamp.
    """

    stamp: str
    batch_id: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQueue:
    """A batch queue of the CE.

    Args:
        slot: the slot that its pilots request; the smallest of several.
        cpu_time_s: offered to jobs there, in CPU seconds of a reference core.
    """

    slot: BatchRequest
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CEDescription:
    """The arguments of a backend.

    Args:
        site, ce: names.
        options: of the CE, as configured; the backend refuses unknown ones.
        directory: on the server, for this CE alone; created when needed.
        server_url: where pilots reach the server.
        hidden: directories of the server that payloads on its own machine must not read.
        queues: those that take pilots; empty: not known, and a slot is one core.
    """

    site: str
    ce: str
    options: Mapping[str, object]
    directory: Path
    server_url: str
    hidden: Sequence[Path] = ()
    queues: Sequence[BatchQueue] = ()


class Backend(Protocol):
    """One computing element. Every method may raise ``BackendError``, and has a timeout."""

    def __init__(self, description: CEDescription) -> None:
        """Check the description, without contacting the CE.

        Raises:
            BackendError: an option is unknown or wrong.
        """

    def capacity(self) -> int:
        """Return how many pilots, with the slots of its queues, it could start or let wait now."""

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        """Submit the pilots; a refused one does not affect the others.

        A pilot whose stamp the batch system has already is not submitted again.
        """

    def status(self, handles: Collection[Handle]) -> Mapping[str, BatchState]:
        """Return {stamp: state of the pilot}, with one call to the CE; missing pilots are unknown."""

    def kill(self, handles: Collection[Handle]) -> None:
        """Kill the pilots; ended ones are ignored."""

    def output(self, handle: Handle) -> str:
        """Return the pilot's standard output and error, as far as available; at most the last MB."""

    def clean(self, handles: Collection[Handle]) -> None:
        """Remove the files of ended pilots from the CE; their output is kept for 30 days."""


@runtime_checkable
class ChecksQueues(Protocol):
    """A backend that can check whether its CE fulfils what its queues promise."""

    def shortfalls(self) -> Sequence[str]:
        """Return a sentence for each queue whose promises the CE does not fulfil."""
