"""Output data after the payload: stored where the lease says, then registered (PIL §2.1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar
from unicodedata import normalize
from urllib.parse import quote

from pilots.agent import log, sandbox
from pilots.agent.checksums import checksum_of
from pilots.agent.data import OutputPlace
from pilots.agent.lease import Lease
from pilots.agent.slot import Slot
from pilots.agent.storage import StorageError

Result = TypeVar("Result")
#: All are open at the same time.
MAX_FILES = 500
#: Of characters.
MAX_LFN = 255


class NoOutputError(Exception):
    """The payload did not write what the job is to store."""


class Persistently(Protocol):
    """Calls again until it is answered, or the delivery has no time left."""

    def __call__(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Return what *attempt* returns."""


def store_output_data(
    slot: Slot, lease: Lease, directory: Path, *, persistently: Persistently, give_up: Callable[[], bool]
) -> None:
    """Store and register every output file of a job whose payload has ended well.

    Raises:
        NoOutputError: a name or a pattern matches no file; nothing has been stored.
        StorageError, OSError: a file cannot be stored; those before it are, and are registered.
        RefusedError: the server does not register one.
        LeaseEndedError, UnreachableError, InterruptedCallError, GivenUpError: see Delivery.
    """
    data = lease.data
    if not data.output_files:
        return
    if data.output is None:
        raise StorageError("the site has no storage element")
    found = _files(directory, data.output_files)
    lfns = _logical_names([name for _, name in found], path=data.output.path)
    with ExitStack() as opened:
        files = [(_opened(path, name, directory, opened), name) for path, name in found]
        for file, name in files:
            _store(slot, lease, file, lfns[name], data.output, persistently=persistently, give_up=give_up)


def _files(directory: Path, patterns: tuple[str, ...]) -> list[tuple[Path, str]]:
    found: dict[str, Path] = {}
    for pattern in patterns:
        chosen = sandbox.chosen(directory, [pattern])
        if not chosen:
            raise NoOutputError(f"no file matches {pattern}")
        found.update({name: path for path, name in chosen})
    if len(found) > MAX_FILES:
        raise NoOutputError(f"{len(found)} files match, at most {MAX_FILES} are stored; pack them")
    return [(found[name], name) for name in sorted(found)]


def _logical_names(names: Iterable[str], *, path: str) -> dict[str, str]:
    """Return {name: logical name}; the server registers no others, and it would be asked when a file is stored."""
    lfns: dict[str, str] = {}
    for name in names:
        lfn = f"{path}/{normalize('NFC', name)}"
        if len(lfn) > MAX_LFN:
            raise NoOutputError(f"names of at most {MAX_LFN} characters can be registered, not of {len(lfn)}: {lfn}")
        if lfn in lfns.values():
            raise NoOutputError(f"two files are called {lfn}, in two spellings of Unicode; rename one")
        lfns[name] = lfn
    return lfns


def _opened(path: Path, name: str, directory: Path, opened: ExitStack) -> BinaryIO:
    """Return the open file; a link may lead out of the job's directory, to what only the pilot may read."""
    file = sandbox.open_inside(path, directory)
    if file is None:
        raise NoOutputError(f"{name} is no plain file of the job's directory")
    return opened.enter_context(file)


def _store(
    slot: Slot,
    lease: Lease,
    file: BinaryIO,
    lfn: str,
    place: OutputPlace,
    *,
    persistently: Persistently,
    give_up: Callable[[], bool],
) -> None:
    token = lease.data.credentials.get(place.storage_element, "")
    size_bytes, checksum = os.fstat(file.fileno()).st_size, checksum_of(file)

    def put() -> None:
        slot.storage.put(file, place.url.rstrip("/") + quote(lfn), token=token, give_up=give_up)

    def register() -> None:
        slot.server.register_replica(
            lease, lfn=lfn, storage_element=place.storage_element, size_bytes=size_bytes, checksum=checksum
        )

    persistently("output_data.store", put)
    persistently("output_data.register", register)
    log.event("output_data.stored", job=lease.job.id, lfn=lfn, storage_element=place.storage_element, bytes=size_bytes)
