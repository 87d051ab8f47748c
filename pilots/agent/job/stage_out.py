"""Stage-out: output data are stored at the storage element that the lease names, then registered (PIL §2.1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO
from unicodedata import normalize

from pilots.agent.data.storage import StorageError
from pilots.agent.job import output_files, sandbox
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.output_store import RepeatedCall, store_files
from pilots.agent.server.job_data import GrantedName
from pilots.agent.server.lease import Lease
from wms.wire.protocol import LFN_PREFIX, MAX_LFN, MAX_OUTPUT_FILES


class NoOutputDataError(Exception):
    """The payload did not write the output data that the job names."""


def store_output_data(
    context: JobContext, lease: Lease, directory: Path, *, stored: list[GrantedName], repeated: RepeatedCall,
    give_up: Callable[[], bool],
) -> None:  # fmt: skip
    """Store and register all output data of a job whose payload was successful; *stored* gets their names.

    Raises:
        NoOutputDataError: a name or a pattern matches no file; nothing has been stored.
        StorageError, OSError: a file cannot be stored; those before it are.
        RefusedError: the server refuses to register a file.
        LeaseEndedError, UnreachableError, InterruptedCallError, GivenUpError: see Delivery.
    """
    data = lease.data
    if not data.output_files:
        return
    if data.destination is None:
        raise StorageError("the site has no storage element")
    matches = _files(directory, _patterns(data.output_files))
    lfns = _logical_names([name for _, name in matches], path=data.destination.path)
    outputs = [(path, name, lfns[name]) for path, name in matches]
    outputs += _named_files(directory, data.output_files, taken=set(lfns.values()))
    if len(outputs) > MAX_OUTPUT_FILES:
        raise NoOutputDataError(f"{len(outputs)} files match, at most {MAX_OUTPUT_FILES} are stored; pack them")
    # All are open at the same time.
    with ExitStack() as opened:
        files = [(_opened(path, name, directory, opened), lfn) for path, name, lfn in outputs]
        store_files(context, lease, files, data.destination, stored=stored, repeated=repeated, give_up=give_up)


def present_files(directory: Path, entries: Sequence[str]) -> list[tuple[Path, str]]:
    """Return (path, name) of each file of the job's directory that matches an entry of the output data, once."""
    files = {name: path for path, name in output_files.chosen(directory, _patterns(entries))}
    named = (_file_called(directory, lfn.rpartition("/")[2]) for lfn in _lfns(entries))
    files |= {path.name: path for path in named if path is not None}
    storable = {name: path for name, path in files.items() if _is_storable(path, directory)}
    return [(storable[name], name) for name in sorted(storable)]


def _is_storable(path: Path, directory: Path) -> bool:
    return sandbox.obstacle(path, directory) != sandbox.EMPTY_DIRECTORY


def _named_files(directory: Path, entries: Iterable[str], *, taken: set[str]) -> list[tuple[Path, str, str]]:
    """Return (path, name, logical name) of the files that the job names as ``LFN:/vo/…/name``.

    The file is the one called *name* in the job's directory, as in DIRAC.
    """
    files = []
    for lfn in _lfns(entries):
        name = lfn.rpartition("/")[2]
        path = _file_called(directory, name)
        if path is None:
            raise NoOutputDataError(f"there is no file {name}, to be stored as {lfn}")
        if lfn not in taken:
            files.append((path, name, lfn))
    return files


def _patterns(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(entry for entry in entries if not entry.startswith(LFN_PREFIX))


def _lfns(entries: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(entry[len(LFN_PREFIX) :] for entry in entries if entry.startswith(LFN_PREFIX))


def _file_called(directory: Path, name: str) -> Path | None:
    """Return the path of what has this name in a directory; None: nothing has.

    A logical name is in Unicode's composed form (NFC); the payload may have used another form.
    """
    if os.path.lexists(directory / name):
        return directory / name
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return None  # the payload has removed the directory
    return next((directory / spelling for spelling in names if normalize("NFC", spelling) == name), None)


def _files(directory: Path, patterns: tuple[str, ...]) -> list[tuple[Path, str]]:
    files: dict[str, Path] = {}
    for pattern in patterns:
        chosen = output_files.chosen(directory, [pattern])
        if not chosen:
            raise NoOutputDataError(f"no file matches {pattern}")
        # Empty directories cannot be registered; one that is all there is will be named as such.
        storable = [each for each in chosen if _is_storable(each[0], directory)]
        files.update({name: path for path, name in storable or chosen})
    return [(files[name], name) for name in sorted(files)]


def _logical_names(names: Iterable[str], *, path: str) -> dict[str, str]:
    """Return {name: logical name}; checked before anything is stored, because the server checks only afterwards."""
    lfns: dict[str, str] = {}
    for name in names:
        lfn = f"{path}/{normalize('NFC', name)}"
        if len(lfn) > MAX_LFN:
            raise NoOutputDataError(
                f"names of at most {MAX_LFN} characters can be registered, not of {len(lfn)}: {lfn}"
            )
        if lfn in lfns.values():
            raise NoOutputDataError(f"two files are called {lfn}, in two spellings of Unicode; rename one")
        lfns[name] = lfn
    return lfns


def _opened(path: Path, name: str, directory: Path, opened: ExitStack) -> BinaryIO:
    """Open a file; one outside the job's directory, behind a link, may be readable only for the pilot."""
    file = sandbox.open_inside(path, directory)
    if file is None:
        raise NoOutputDataError(f"{name} is {sandbox.obstacle(path, directory)}")
    return opened.enter_context(file)
