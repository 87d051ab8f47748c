"""Storage elements to which output is written so that nothing is replaced by mistake (ADR 72).

The bytes of a file go to a name that only one lease uses, its *upload*. When all are there, the file gets its own name
in one step, which fails if there is a file of this name already. All names are logical: the URL of a file is that of
the storage element followed by its logical name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import quote

from pilots.agent.data import safe_paths
from pilots.agent.data.storage import (
    NoSuchFileError,
    NotSupportedError,
    Storage,
    StorageError,
    chunks_of,
    path_of,
)
from pilots.agent.server.http import GivenUpError
from pilots.agent.server.job_data import Content, GrantedName, content_of

GiveUp = Callable[[], bool]


class WritableElement(Protocol):
    """A storage element. Every call may be repeated, and raises what those of ``Storage`` raise."""

    def put(self, file: BinaryIO, upload: str, *, give_up: GiveUp) -> None:
        """Store the bytes of *file* under a name of the lease alone."""

    def place(self, file: BinaryIO, upload: str, lfn: str, *, replace: bool, give_up: GiveUp) -> bool:
        """Give an upload the name *lfn*; without *replace*, return False if there is a file of this name.

        Raises:
            NoSuchFileError: there is no such upload.
        """

    def size(self, lfn: str) -> int | None:
        """Return the size of a file in bytes; None: there is no such file."""

    def content(self, lfn: str, *, give_up: GiveUp) -> Content:
        """Return size and checksum of a file, all of which is read."""

    def remove(self, lfn: str) -> None:
        """Remove a file, if it exists."""


def element_at(storage: Storage, url: str, *, token: str) -> WritableElement:
    """Return the storage element at *url*, to which *token* gives access."""
    path = path_of(url)
    return _HttpElement(storage, url, token=token) if path is None else _DirectoryElement(path)


def placed(
    element: WritableElement, file: BinaryIO, name: GrantedName, content: Content, *, again: bool, give_up: GiveUp
) -> bool:
    """Give an upload its name; return False, changing nothing, if another file has the name.

    A file of this name is replaced only if the server allows it, or if an earlier attempt has left it there. One with
    equal content is the result of a call whose answer was lost, or of an attempt that ended before it was registered.

    Args:
        element: where the upload is.
        file: the same bytes, for an element that cannot move them.
        name: that the server has reserved.
        content: of the file.
        again: whether it was tried before, and may have succeeded; else a file with equal content is somebody's.
        give_up: ends the call before the next step.
    """
    size_bytes, is_gone = None, False
    # A second look, at what came into its place meanwhile.
    for _ in range(2):
        size_bytes = element.size(name.stored_as)
        replaces = name.replaces
        if (again or not replaces) and size_bytes in {content.size_bytes, *(each.size_bytes for each in name.earlier)}:
            found = element.content(name.stored_as, give_up=give_up)
            if found == content and (again or found in name.earlier):
                element.remove(name.upload)
                return True
            replaces = replaces or found in name.earlier
        if give_up():
            raise GivenUpError
        if size_bytes is not None and not replaces:
            return False
        try:
            if element.place(file, name.upload, name.stored_as, replace=size_bytes is not None, give_up=give_up):
                _refuse_other_size(element.size(name.stored_as), sent_bytes=content.size_bytes)
                return True
        except NoSuchFileError:
            # The upload has got its name by an earlier call, whose answer was lost.
            again = is_gone = True
    if is_gone and size_bytes is None:
        raise StorageError("the storage element said that it stored the file, and does not have it")
    return False


def _refuse_other_size(size_bytes: int | None, *, sent_bytes: int) -> None:
    """Refuse a file that the element does not have as it was sent, whatever it has answered."""
    if size_bytes != sent_bytes:
        has = "no such file" if size_bytes is None else f"a file of {size_bytes} bytes"
        raise StorageError(f"the storage element said that it stored {sent_bytes} bytes, and has {has}")


class _DirectoryElement:
    """A storage element that is a directory of a file system."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, file: BinaryIO, upload: str, *, give_up: GiveUp) -> None:
        if not self._path.is_dir():
            raise StorageError(f"this node has no directory {self._path}, which is the storage element; is it mounted?")
        with safe_paths.written(self._path, upload.lstrip("/")) as target:
            for chunk in chunks_of(file, give_up=give_up):
                target.write(chunk)

    def place(self, _: BinaryIO, upload: str, lfn: str, *, replace: bool, give_up: GiveUp) -> bool:  # noqa: ARG002
        try:
            return safe_paths.moved(self._path, upload.lstrip("/"), lfn.lstrip("/"), replace=replace)
        except FileNotFoundError:
            raise NoSuchFileError("its upload is not there any more") from None

    def size(self, lfn: str) -> int | None:
        try:
            return safe_paths.size_of(self._path, lfn.lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def content(self, lfn: str, *, give_up: GiveUp) -> Content:
        with safe_paths.opened(self._path, lfn.lstrip("/")) as file:
            return content_of(chunks_of(file, give_up=give_up))

    def remove(self, lfn: str) -> None:
        safe_paths.removed(self._path, lfn.lstrip("/"))


class _HttpElement:
    """A storage element with WebDAV (RFC 4918), or else one that stores a file only if it is new (RFC 9110 §13.1.2)."""

    def __init__(self, storage: Storage, url: str, *, token: str) -> None:
        self._storage, self._url, self._token = storage, url.rstrip("/"), token
        #: Whether it can move files, as far as is known; else there are no uploads.
        self._moves = True

    def put(self, file: BinaryIO, upload: str, *, give_up: GiveUp) -> None:
        if self._moves:
            self._storage.put(file, self._of(upload), token=self._token, give_up=give_up)

    def place(self, file: BinaryIO, upload: str, lfn: str, *, replace: bool, give_up: GiveUp) -> bool:
        if self._moves:
            if replace and (size_bytes := self.size(upload)) is not None:  # else it has got its name already
                _refuse_other_size(size_bytes, sent_bytes=os.fstat(file.fileno()).st_size)
            try:
                return self._storage.move(self._of(upload), self._of(lfn), token=self._token, replace=replace)
            except NotSupportedError:
                self._require_conditions(upload)
            self._moves = False
            self.remove(upload)
        return self._storage.put(file, self._of(lfn), token=self._token, give_up=give_up, only_new=not replace)

    def size(self, lfn: str) -> int | None:
        try:
            size_bytes = self._storage.size(self._of(lfn), token=self._token)
            # Some servers do not say how large a file is that they compress or take from elsewhere.
            return self.content(lfn, give_up=lambda: False).size_bytes if size_bytes is None else size_bytes
        except NoSuchFileError:
            return None

    def content(self, lfn: str, *, give_up: GiveUp) -> Content:
        return self._storage.content(self._of(lfn), token=self._token, give_up=give_up)

    def remove(self, lfn: str) -> None:
        # A credential that may only create files leaves it there; it harms nothing.
        with suppress(StorageError):
            self._storage.remove(self._of(lfn), token=self._token)

    def _require_conditions(self, upload: str) -> None:
        """Find out whether the server honours conditions, by a condition that is false; many servers ignore them."""
        is_honoured = False
        # A server that refuses the request for another reason does not know conditions.
        with suppress(StorageError), Path(os.devnull).open("rb") as nothing:
            is_honoured = not self._storage.put(
                nothing, self._of(upload), token=self._token, give_up=lambda: False, only_new=True
            )
        if not is_honoured:
            raise StorageError(
                "its server can neither move a file without replacing another nor store only a new one; "
                "name another OutputSE, or ask its administrators"
            )

    def _of(self, lfn: str) -> str:
        return self._url + quote(lfn)
