"""Output files of a job are stored at a storage element, under names that the server reserves (ADR 72)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import BinaryIO, Protocol, TypeVar

from pilots.agent.base import log
from pilots.agent.data.placing import WritableElement, element_at, placed
from pilots.agent.data.storage import StorageError
from pilots.agent.job import sandbox
from pilots.agent.job.job_context import JobContext
from pilots.agent.server.http import GivenUpError
from pilots.agent.server.job_data import Content, GrantedName, OutputDestination
from pilots.agent.server.lease import Lease
from pilots.agent.server.retry import InterruptedCallError
from wms.wire.storage import checksum_of

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
    repeated: RepeatedCall, give_up: Callable[[], bool],
) -> Sequence[GrantedName]:  # fmt: skip
    """Store and register files of a job; return the names that they got, in the same order.

    Args:
        context: of the job.
        lease: of the job.
        files: each with its logical name.
        place: the storage element.
        repeated: repeats calls that are not answered.
        give_up: whether the output has become useless.

    Raises:
        StorageError, OSError: a file cannot be stored; the earlier ones are stored and registered.
        RefusedError: the server refuses a name.
        LeaseEndedError, UnreachableError, InterruptedCallError, GivenUpError: see Delivery.
    """
    store = _OutputStore(context, lease, place, repeated, give_up)
    contents = [store.content_of(file) for file, _ in files]
    names = store.reserved([(lfn, content) for (_, lfn), content in zip(files, contents)])
    return [store.store(file, name, content) for (file, _), name, content in zip(files, names, contents)]


def renamed(names: Sequence[GrantedName]) -> str:
    """Return a short sentence about the files that got other names, for the minor status; empty: none did."""
    others = [name for name in names if name.stored_as != name.lfn]
    if not others:
        return ""
    first = others[0]
    more = f", and {len(others) - 1} more in that directory" if len(others) > 1 else ""
    return f"{_shortened(first.lfn)}: {first.reason}, so it is stored as LFN:{first.stored_as}{more}"


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
        token = lease.data.credentials.get(place.storage_element, "")
        self._element: WritableElement = element_at(context.storage, place.url, token=token)

    def content_of(self, file: BinaryIO) -> Content:
        checksum = checksum_of(sandbox.stoppable(file, self._give_up))
        return Content(os.fstat(file.fileno()).st_size, checksum)

    def reserved(self, files: Sequence[tuple[str, Content]], *, exist: bool = False) -> Sequence[GrantedName]:
        def reserve() -> Sequence[GrantedName]:
            return self._server.reserve_outputs(
                self._lease, files, storage_element=self._place.storage_element, exist=exist
            )

        return self._repeated("output_data.reserve", reserve)

    def store(self, file: BinaryIO, name: GrantedName, content: Content) -> GrantedName:
        """Store and register a file; return its name, which is another one if the element has a file of the first."""
        left = _MOST_NAMES
        while not self._is_placed(file, name, content):
            left -= 1
            if not left:
                raise StorageError(f"the storage element has another file of this name: {name.stored_as}")
            (another,) = self.reserved([(name.stored_as, content)], exist=True)
            name = replace(another, lfn=name.lfn, reason=name.reason or another.reason)

        def register() -> None:
            self._server.register_replica(
                self._lease, name.stored_as, content, storage_element=self._place.storage_element
            )

        self._repeated("output_data.register", register)
        log.event(
            "output_data.stored", job=self._lease.job.id, lfn=name.stored_as,
            storage_element=self._place.storage_element, bytes=content.size_bytes,
        )  # fmt: skip
        return name

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
        except (StorageError, GivenUpError, InterruptedCallError):
            # Else the next attempt removes it; the element answers, or does not matter.
            self._remove_upload(name)
            raise
        if not is_placed:
            self._remove_upload(name)
        return is_placed

    def _remove_upload(self, name: GrantedName) -> None:
        with suppress(Exception):
            self._element.remove(name.upload)
