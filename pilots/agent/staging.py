"""Input data before the payload: fetched into its directory or left in place, and looked at either way (PIL §2.1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pilots.agent import log
from pilots.agent.checksums import is_same
from pilots.agent.client import TooMuchError, UnreachableError
from pilots.agent.clock import monotonic
from pilots.agent.data import IN_PLACE, InputFile
from pilots.agent.lease import Lease
from pilots.agent.preparation import RESCHEDULE, CannotRunError
from pilots.agent.slot import Slot
from pilots.agent.storage import StorageError, path_of
from pilots.agent.workspace import Workspace

#: {logical name: path or URL}, for the payload.
CATALOG = "input_data.json"
#: What arrives damaged so often is damaged where it comes from.
_TRANSFERS = 3
#: With a storage element that does not answer; then the job had better run elsewhere.
PATIENCE_S = 60.0


class _WrongContentError(Exception):
    """What is there is not what was registered."""


def stage_in(slot: Slot, lease: Lease, workspace: Workspace) -> None:
    """Get the input data of a job ready, and write for the payload where each file is.

    Raises:
        CannotRunError: a file cannot be read; another node may have more luck.
        InterruptedCallError, GivenUpError: something more important came up.
        OSError: the node's disk.
    """
    data = lease.data
    if data.output_files and data.output is None:
        raise CannotRunError(RESCHEDULE, "The site has no storage element for the output data; name one by output_se")
    if not data.input_files:
        return
    places = {}
    for number, given in enumerate(data.input_files):
        try:
            if data.policy == IN_PLACE:
                places[given.lfn] = _look_at(slot, lease, given)
            else:
                places[given.lfn] = str(_fetch(slot, lease, given, number=number, workspace=workspace))
        except (UnreachableError, StorageError, TooMuchError, _WrongContentError, OSError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            log.event("input_data.unreadable", job=lease.job.id, lfn=given.lfn, url=given.url, error=reason)
            raise CannotRunError(RESCHEDULE, f"Input data {given.lfn} cannot be read: {reason}"[:255]) from error
    catalog = workspace.job / CATALOG
    catalog.write_text(json.dumps(places, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _fetch(slot: Slot, lease: Lease, given: InputFile, *, number: int, workspace: Workspace) -> Path:
    arrived = workspace.scratch / "arriving-data"

    def once() -> None:
        slot.storage.fetch(
            given.url,
            token=lease.data.credentials.get(given.storage_element, ""),
            into=arrived,
            max_bytes=given.size_bytes,
            give_up=lambda: slot.order(lease) is not None,
        )

    for transfer in range(1, _TRANSFERS + 1):
        _call(slot, lease, given, once)
        try:
            _compare(arrived, given)
            break
        except _WrongContentError as error:
            if transfer == _TRANSFERS:
                raise
            log.event("input_data.damaged", job=lease.job.id, lfn=given.lfn, error=error, transfer=transfer)
    target = _free_place(workspace.job, given.lfn, number=number)
    arrived.rename(target)
    target.chmod(0o644)
    return target


def _look_at(slot: Slot, lease: Lease, given: InputFile) -> str:
    """Return the path or the URL of a file that is left where it is."""
    path = path_of(given.url)
    if path is not None:
        if not path.is_file():
            raise StorageError("there is no such file")
        with path.open("rb"):
            pass  # it may be read, then
        _compare(path, given)
        return str(path)

    def once() -> int | None:
        return slot.storage.size(given.url, token=lease.data.credentials.get(given.storage_element, ""))

    size_bytes = _call(slot, lease, given, once)
    # Its checksum could only be had by reading all of it.
    if None not in {size_bytes, given.size_bytes} and size_bytes != given.size_bytes:
        raise _WrongContentError(f"it has {size_bytes} bytes, not {given.size_bytes}")
    return given.url


def _call(slot: Slot, lease: Lease, given: InputFile, once: Callable[[], int | None]) -> int | None:
    if not given.url:
        raise StorageError("no copy of it is left")
    give_up_at = monotonic() + PATIENCE_S
    return slot.persistence.call(
        "input_data.fetch",
        once,
        until=lambda: min(give_up_at, lease.over_at),
        interrupted=lambda: slot.order(lease) is not None,
    )


def _compare(file: Path, given: InputFile) -> None:
    size_bytes = file.stat().st_size
    if given.size_bytes is not None and size_bytes != given.size_bytes:
        raise _WrongContentError(f"it has {size_bytes} bytes, not {given.size_bytes}")
    if given.checksum and not is_same(file, given.checksum):
        raise _WrongContentError(f"its {given.checksum.partition(':')[0]} is another")


def _free_place(directory: Path, lfn: str, *, number: int) -> Path:
    """Return where in the job's directory the file goes: under its own name, if that is still free."""
    name = lfn.rpartition("/")[2]
    target = directory / name
    if name != CATALOG and not target.exists() and not target.is_symlink():
        return target
    apart = directory / f"input_data.{number}"
    apart.mkdir()
    return apart / name
