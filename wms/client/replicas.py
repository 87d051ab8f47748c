"""Files on storage elements: found in the catalogue, and downloaded from one of their replicas."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from http.client import HTTPResponse
from pathlib import Path

from .connection import Connection, Record
from .downloads import Download, OnBytes
from .errors import ClientError, NotReachableError, ServerRefusedError, WrongUsageError
from .retries import Retries
from .storage import SeenFile, UnreadableError, delete, look, opened, path_of, token_in
from .wire.protocol import API_V1
from .wire.storage import checksum_of

#: Seconds for which a storage element that does not answer is tried, before the next replica is.
_RETRY_S = 5.0
_CHUNK_BYTES = 1024 * 1024


class NoReplicaError(ClientError):
    """The catalogue has no replica of the file that the user may see."""

    code = "no_replica"


class NoReadableReplicaError(ClientError):
    """No replica of the file can be read from this computer.

    Attributes:
        errors: a sentence by storage element.
    """

    code = "no_readable_replica"

    def __init__(self, text: str, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__(text)
        self.errors = errors

    def as_json(self) -> Mapping[str, object]:
        """Return the JSON, with the sentence of each storage element."""
        return {**super().as_json(), "errors": self.errors}


def replicas_of(
    connection: Connection, lfn: str, *, vo: str | None = None, storage_element: str | None = None
) -> list[Record]:
    """Return the replicas of a file, in the order of the names of their storage elements.

    Args:
        connection: of the user.
        lfn: logical name of the file, with or without the prefix ``LFN:``.
        vo: VO of the file; None: any.
        storage_element: only the replica there; None: all.

    Raises:
        NoReplicaError: there is none.
        WrongUsageError: files of several VOs have this name.
    """
    query = {"lfn": without_prefix(lfn), "page_size": "1000"}
    if vo is not None:
        query["vo"] = vo
    if storage_element is not None:
        query["storage_element"] = storage_element
    found = sorted(connection.rows(f"{API_V1}replicas/", query=query), key=lambda each: str(each["storage_element"]))
    if not found:
        at = "" if storage_element is None else f" at {storage_element}"
        raise NoReplicaError(
            f"The catalogue has no replica of {lfn}{at} that you may see; `wms files list --directory DIR` lists files."
        )
    vos = sorted({str(each["vo"]) for each in found})
    if len(vos) > 1:
        raise WrongUsageError(f"Files of the VOs {', '.join(vos)} have the name {lfn}; name the VO (--vo).")
    return found


def without_prefix(lfn: str) -> str:
    """Return a logical name without a leading ``LFN:``."""
    return lfn[4:] if lfn[:4].upper() == "LFN:" else lfn


def fetch(
    replicas: Sequence[Record],
    target: Path,
    *,
    force: bool = False,
    environment: Mapping[str, str] = os.environ,
    on_bytes: OnBytes | None = None,
) -> Record:
    """Write a file to *target*, from the first of its replicas that can be read; return that replica.

    Size and checksum are compared where the catalogue has them. Until the file is complete it is beside its place; a
    later call continues there, if the storage element identifies the version.

    Args:
        replicas: at least one, as returned by ``replicas_of``. Copies on this computer are tried first.
        target: in a directory that exists.
        force: whether an existing file is replaced.
        environment: ``BEARER_TOKEN``, or the file that ``BEARER_TOKEN_FILE`` names, holds a token for storage elements.
        on_bytes: called with (bytes that are there, bytes of the whole file or None).

    Raises:
        NoReadableReplicaError: none can be read.
        WrongUsageError: *target* exists, or cannot be written.
    """
    _refuse_existing(target, force=force)
    token = token_in(environment)
    problems: dict[str, Sequence[str]] = {}
    for replica in sorted(replicas, key=lambda each: not str(each.get("url")).startswith("file:")):
        accept = partial(_accept, replica=replica, target=target, force=force)
        try:
            _read(str(replica.get("url") or ""), target, token=token, accept=accept, on_bytes=on_bytes)
        except (UnreadableError, ServerRefusedError, NotReachableError) as error:
            problems[str(replica["storage_element"])] = [str(error)]
        else:
            return replica
    hint = "" if token else " If they need a token of yours, set BEARER_TOKEN or BEARER_TOKEN_FILE."
    raise NoReadableReplicaError(f"No replica of {replicas[0]['lfn']} can be read from here.{hint}", problems)


def remove(
    connection: Connection, replicas: Sequence[Record], *, environment: Mapping[str, str] | None = os.environ
) -> Mapping[str, str]:
    """Remove replicas of one file from the catalogue, then delete their files; return what could not be deleted.

    The catalogue comes first: it decides whether the user may. Then the name is free, so that only the file that was
    there before is deleted. One that cannot be deleted from here is left.

    Args:
        connection: of the user.
        replicas: at least one, as returned by ``replicas_of``.
        environment: as of ``fetch``; None: nothing is deleted.

    Returns:
        {storage element: why its file is left}.
    """
    token = "" if environment is None else token_in(environment)
    files = [] if environment is None else [_SeenReplica(each, token=token) for each in replicas]
    named = [{"lfn": each["lfn"], "storage_element": each["storage_element"]} for each in replicas]
    connection.post(f"{API_V1}replicas/remove/", {"vo": replicas[0]["vo"], "replicas": named})
    return {file.storage_element: why for file in files if (why := file.delete())}


class _SeenReplica:
    """The file of a replica, seen before the replica leaves the catalogue."""

    def __init__(self, replica: Record, *, token: str) -> None:
        self.storage_element, self._url, self._token = str(replica["storage_element"]), str(replica["url"] or ""), token
        self._seen: SeenFile | None = None
        #: Why it cannot be deleted; empty: it can.
        self._why_left = ""
        try:
            self._seen = look(self._url, token=token)
        except (UnreadableError, ServerRefusedError, NotReachableError) as error:
            self._why_left = str(error)
        length, expected = None if self._seen is None else self._seen.size_bytes, replica["size_bytes"]
        if None not in {length, expected} and length != expected:
            self._why_left = f"it has {length} bytes, in the catalogue it has {expected}"

    def delete(self) -> str:
        """Delete it; return why that is not possible, empty if it is, or was not necessary."""
        if self._why_left or self._seen is None:
            return self._why_left
        try:
            delete(self._url, token=self._token, seen=self._seen)
        except (UnreadableError, ServerRefusedError, NotReachableError) as error:
            return str(error)
        return ""


def _accept(file: Path, *, replica: Record, target: Path, force: bool) -> None:
    """Refuse a file that is not the one of the catalogue, or whose place has been taken meanwhile."""
    _compare(file, replica)
    _refuse_existing(target, force=force)


def _refuse_existing(target: Path, *, force: bool) -> None:
    if target.exists() and not force:
        raise WrongUsageError(f"{target} exists; give --force to replace it, or another directory.")


def _read(url: str, target: Path, *, token: str, accept: Callable[[Path], None], on_bytes: OnBytes | None) -> None:
    """Write the file at an address to *target*.

    Args:
        url: empty: the server gives none.
        target: the file.
        token: empty: none.
        accept: raises an error if the complete file is not the right one.
        on_bytes: as of ``fetch``.
    """
    if not url:
        raise UnreadableError("the server gives no address: the storage element does not serve the VO")
    path = path_of(url)
    if path is not None:
        _copy(path, target, accept=accept)
        return

    def open_answer(headers: Mapping[str, str]) -> AbstractContextManager[HTTPResponse]:
        return opened(url, headers, token=token)

    Download(target, open_answer=open_answer, on_bytes=on_bytes, accept=accept).run(Retries(total_s=_RETRY_S))


def _copy(source: Path, target: Path, *, accept: Callable[[Path], None]) -> None:
    part = target.with_name(f".{target.name}.part")
    try:
        content = source.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL
        reason = getattr(error, "strerror", None) or error
        raise UnreadableError(f"{source} cannot be read on this computer ({reason})") from error
    try:
        with content, part.open("wb") as file:
            shutil.copyfileobj(content, file, _CHUNK_BYTES)
        accept(part)
        part.replace(target)
    except OSError as error:
        raise WrongUsageError(f"{target} cannot be written ({error.strerror}).") from error
    finally:
        part.unlink(missing_ok=True)


def _compare(file: Path, replica: Record) -> None:
    """Refuse a file that has not the size or the checksum of the catalogue."""
    size_bytes, expected = replica["size_bytes"], str(replica["checksum"])
    if size_bytes is not None and file.stat().st_size != size_bytes:
        raise UnreadableError(f"its file has {file.stat().st_size} bytes, in the catalogue it has {size_bytes}")
    if not expected:
        return
    with file.open("rb") as content, suppress(ValueError):  # of an unknown kind
        if (actual := checksum_of(content, kind=expected.partition(":")[0])) != expected.lower():
            raise UnreadableError(f"its file has the checksum {actual}, in the catalogue {expected}")
