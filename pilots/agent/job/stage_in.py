"""Stage-in: input data are fetched into the job's directory or left in place, and checked (PIL §2.1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.data.storage import StorageError, opened_below, path_of, without_secrets
from pilots.agent.job import sandbox
from pilots.agent.job.job_context import JobContext
from pilots.agent.job.preparation import CannotRunError, NodeTroubleError, is_of_node
from pilots.agent.job.sandbox import UnsafeMemberError
from pilots.agent.job.workspace import Workspace
from pilots.agent.server.http import TooMuchError, UnreachableError
from pilots.agent.server.job_data import DataFile, InputCopy
from pilots.agent.server.lease import Lease
from wms.wire.archives import ENDINGS, ArchiveError
from wms.wire.protocol import IN_PLACE, MAX_NAME, RESCHEDULE_EXIT_CODE
from wms.wire.storage import is_same

#: File with {logical name: path or URL}, for the payload.
CATALOG = "input_data.json"
#: Transfers of a file that arrives damaged; after that the copy itself is considered damaged.
_TRANSFERS = 3
#: Seconds for a storage element that does not answer; then another copy or another site is tried.
PATIENCE_S = 60.0


class _WrongContentError(Exception):
    """The content of a copy differs from what was registered."""


def stage_in(context: JobContext, lease: Lease, workspace: Workspace, *, max_unpacked_bytes: int) -> None:
    """Stage in the input data of a job and the catalogue's files of its input sandbox; write the paths of the data.

    Args:
        context: of the job's process.
        lease: names the files.
        workspace: directories of the job.
        max_unpacked_bytes: of one archive of the input sandbox.

    Raises:
        CannotRunError: a file cannot be read; another node may read it.
        InterruptedCallError, GivenUpError: the job must stop.
        OSError: the node's disk failed.
    """
    data = lease.data
    if data.output_files and data.destination is None:
        sentence = "There is no place for the output data: the site has no storage element (name one by output_se)"
        sentence += ", or a logical name is in a directory that is not its owner's"
        raise CannotRunError(RESCHEDULE_EXIT_CODE, sentence)
    if not data.input_files:
        return
    places = {}
    for number, file in enumerate(data.input_files):
        place = _from_any_copy(context, lease, file, number=number, workspace=workspace)
        if not file.is_of_sandbox:
            places[file.lfn] = place
        elif file.lfn.endswith(ENDINGS):
            _unpack(Path(place), file, workspace=workspace, max_bytes=max_unpacked_bytes)
    if not places:
        return
    catalog = workspace.job / CATALOG
    catalog.write_text(json.dumps(places, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _from_any_copy(context: JobContext, lease: Lease, file: DataFile, *, number: int, workspace: Workspace) -> str:
    """Return the path or URL of the nearest copy that can be read and is as registered."""
    arrived = workspace.scratch / "arriving-data"
    reason, cause, of_node = "no copy of it is left", None, False
    for copy in file.copies:
        try:
            if lease.data.policy == IN_PLACE and not file.is_of_sandbox:
                return _check_in_place(context, lease, copy, lfn=file.lfn)
            _fetch(context, lease, copy, into=arrived, lfn=file.lfn)
            target = _free_place(workspace.job, file.lfn, number=number)
            arrived.rename(target)
            target.chmod(0o644)
            return str(target)
        except (UnreachableError, StorageError, TooMuchError, _WrongContentError, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            cause = error
            of_node = of_node or (isinstance(error, OSError) and is_of_node(error.errno))
            log.event(
                "input_data.unreadable", job=lease.job.id, lfn=file.lfn, url=without_secrets(copy.url), error=reason
            )
    sentence = f"Input data {file.lfn} cannot be read: {reason}"[:MAX_NAME]
    raise (NodeTroubleError(sentence) if of_node else CannotRunError(RESCHEDULE_EXIT_CODE, sentence)) from cause


def _unpack(archive: Path, file: DataFile, *, workspace: Workspace, max_bytes: int) -> None:
    try:
        with archive.open("rb") as content:
            sandbox.unpack(content, into=workspace.job, max_bytes=max_bytes)
    except (UnsafeMemberError, ArchiveError, ValueError) as error:
        raise CannotRunError(None, f"Input sandbox {file.lfn} cannot be unpacked: {error}"[:MAX_NAME]) from error
    except OSError as error:
        if is_of_node(error.errno):
            raise
        # The content: for example, a compression that is damaged.
        raise CannotRunError(None, f"Input sandbox {file.lfn} cannot be unpacked: {error}"[:MAX_NAME]) from error


def _fetch(context: JobContext, lease: Lease, copy: InputCopy, *, into: Path, lfn: str) -> None:
    def once() -> None:
        context.storage.fetch(
            copy.url,
            token=lease.data.credentials.get(copy.storage_element, ""),
            into=into,
            max_bytes=copy.size_bytes,
            give_up=lambda: context.stop_reason(lease) is not None,
            lfn=lfn,
        )

    for transfer in range(1, _TRANSFERS + 1):
        _call(context, lease, once)
        try:
            _compare(into, copy)
            break
        except _WrongContentError as error:
            if transfer == _TRANSFERS:
                raise
            log.event(
                "input_data.damaged", job=lease.job.id, url=without_secrets(copy.url), error=error, transfer=transfer
            )


def _check_in_place(context: JobContext, lease: Lease, copy: InputCopy, *, lfn: str) -> str:
    """Check a file that is left in place; return its path or URL."""
    path = path_of(copy.url)
    if path is not None:
        with opened_below(path, lfn=lfn):
            _compare(path, copy)
        return str(path)

    def once() -> int | None:
        return context.storage.size(copy.url, token=lease.data.credentials.get(copy.storage_element, ""))

    size_bytes = _call(context, lease, once)
    # No checksum: that would mean reading the whole file.
    if None not in {size_bytes, copy.size_bytes} and size_bytes != copy.size_bytes:
        raise _WrongContentError(f"it has {size_bytes} bytes, not {copy.size_bytes}")
    return copy.url


def _call(context: JobContext, lease: Lease, once: Callable[[], int | None]) -> int | None:
    give_up_at = monotonic() + PATIENCE_S
    return context.retry.call(
        "input_data.fetch",
        once,
        until=lambda: min(give_up_at, lease.over_at),
        interrupted=lambda: context.stop_reason(lease) is not None,
    )


def _compare(file: Path, copy: InputCopy) -> None:
    size_bytes = file.stat().st_size
    if copy.size_bytes is not None and size_bytes != copy.size_bytes:
        raise _WrongContentError(f"it has {size_bytes} bytes, not {copy.size_bytes}")
    if copy.checksum and not is_same(file, copy.checksum):
        raise _WrongContentError(f"{copy.checksum.partition(':')[0]} mismatch")


def _free_place(directory: Path, lfn: str, *, number: int) -> Path:
    """Return the path of an input file in the job's directory: its own name, or in a subdirectory if that is taken."""
    name = lfn.rpartition("/")[2]
    target = directory / name
    if name != CATALOG and not target.exists() and not target.is_symlink():
        return target
    subdirectory = directory / f"input_data.{number}"
    subdirectory.mkdir()
    return subdirectory / name
