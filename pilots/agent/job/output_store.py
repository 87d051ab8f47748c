"""Output files of a job are stored at a storage element, under names that the server reserves (ADR 72)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import BinaryIO, Protocol, TypeVar

from pilots.agent.base import log
from pilots.agent.data.placing import WritableElement, element_at, placed
from pilots.agent.data.storage import StorageError, chunks_of
from pilots.agent.job.job_context import JobContext
from pilots.agent.server.http import GivenUpError, RefusedError
from pilots.agent.server.job_data import Content, GrantedName, OutputDestination, content_of
from pilots.agent.server.lease import Lease
from pilots.agent.server.retry import InterruptedCallError
from wms.wire.protocol import NAME_TAKEN

#: Names that are tried for one file; the last is of the lease alone.
_MOST_NAMES = 3
#: Characters of a requested name in a minor status.
_LONG_NAME = 40
Result = TypeVar("Result")


class RepeatedCall(Protocol):
    """A function that repeats a call until it is answered or the time of the job is over."""

    def __call__(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Return what *attempt* returns."""


def store_files(
    context: JobContext, lease: Lease, files: Sequence[tuple[BinaryIO, str]], place: OutputDestination, *,
    stored: list[GrantedName], repeated: RepeatedCall, give_up: Callable[[], bool],
) -> None:  # fmt: skip
    """Store and register files of a job.

    Args:
        context: of the job.
        lease: of the job.
        files: each with its logical name.
        place: the storage element.
        stored: gets the name of each file that is stored and registered, in the same order.
        repeated: repeats calls that are not answered.
        give_up: whether the output has become useless.

    Raises:
        StorageError, OSError: a file cannot be stored; those before it are.
        RefusedError: the server refuses a name.
        LeaseEndedError, UnreachableError, InterruptedCallError, GivenUpError: see Delivery.
    """
    store = _OutputStore(context, lease, place, repeated, give_up)
    contents = [store.content_of(file) for file, _ in files]
    names = store.reserved([(lfn, content) for (_, lfn), content in zip(files, contents)])
    for (file, _), name, content in zip(files, names, contents):
        stored.append(store.store(file, name, content))


def renamed(names: Sequence[GrantedName], *, room: int) -> str:
    """Return a short sentence about the files that got other names, for the minor status; empty: none did.

    The new name is whole, as far as *room* characters reach; what leads to it may be left out.
    """
    others = [name for name in names if name.stored_as != name.lfn]
    if not others:
        return ""
    first = others[0]
    more = f", and {len(others) - 1} more in that directory" if len(others) > 1 else ""
    where = f"stored as LFN:{first.stored_as}{more}"
    sentence = f"{_shortened(first.lfn)}: {first.reason}, so it is {where}"
    return sentence if len(sentence) <= room else where


def _shortened(text: str) -> str:
    return text if len(text) <= _LONG_NAME else f"…{text[-_LONG_NAME:]}"


class _OutputStore:
    """The storage element to which the output of one job goes."""

    def __init__(
        self, context: JobContext, lease: Lease, place: OutputDestination, repeated: RepeatedCall,
        give_up: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._server, self._lease, self._place = context.server, lease, place
        self._repeated, self._give_up = repeated, give_up
        self._element: WritableElement = element_at(context.storage, place.url, token=place.token)

    def content_of(self, file: BinaryIO) -> Content:
        return content_of(chunks_of(file, give_up=self._give_up))

    def reserved(self, files: Sequence[tuple[str, Content]], *, exist: bool = False) -> Sequence[GrantedName]:
        def reserve() -> Sequence[GrantedName]:
            return self._server.reserve_outputs(
                self._lease, files, storage_element=self._place.storage_element, exist=exist
            )

        return self._repeated("output_data.reserve", reserve)

    def store(self, file: BinaryIO, name: GrantedName, content: Content) -> GrantedName:
        """Store and register a file; return its name, which is another one if there is a file of the first."""
        left = _MOST_NAMES
        # A file that is placed and not registered stays: what was registered meanwhile may be this very file.
        while not (self._is_placed(file, name, content) and self._is_registered(name, content)):
            left -= 1
            if not left:
                raise StorageError(f"there is another file of this name: {name.stored_as}")
            (another,) = self.reserved([(name.stored_as, content)], exist=True)
            name = replace(another, lfn=name.lfn, reason=name.reason or another.reason)
        log.event(
            "output_data.stored", job=self._lease.job.id, lfn=name.stored_as,
            storage_element=self._place.storage_element, bytes=content.size_bytes,
        )  # fmt: skip
        return name

    def _is_registered(self, name: GrantedName, content: Content) -> bool:
        """Register a file; return False if somebody else has registered the name since it was reserved."""

        def register() -> None:
            self._server.register_replica(
                self._lease, name.stored_as, content, storage_element=self._place.storage_element
            )

        try:
            self._repeated("output_data.register", register)
        except RefusedError as error:
            if error.code != NAME_TAKEN:
                raise
            return False
        return True

    def _is_placed(self, file: BinaryIO, name: GrantedName, content: Content) -> bool:
        def put() -> None:
            for leftover in name.leftovers:
                self._element.remove(leftover)
            self._element.put(file, name.upload, give_up=self._give_up)

        tries = count()

        def place() -> bool:
            return placed(self._element, file, name, content, again=next(tries) > 0, give_up=self._give_up)

        is_placed = False
        try:
            self._repeated("output_data.store", put)
            is_placed = self._repeated("output_data.place", place)
        except (StorageError, GivenUpError, InterruptedCallError, OSError):
            # Else the next attempt removes it; the element answers, or does not matter.
            self._remove_upload(name)
            raise
        if not is_placed:
            self._remove_upload(name)
        return is_placed

    def _remove_upload(self, name: GrantedName) -> None:
        with suppress(Exception):
            self._element.remove(name.upload)
