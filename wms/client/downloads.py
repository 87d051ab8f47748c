"""Downloads into files, which a later attempt continues if the server still has the same version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from .errors import ClientError, NotReachableError, ServerRefusedError, WrongUsageError
from .retries import Retries

_CHUNK_BYTES = 256 * 1024
#: Of a version without an ETag: it cannot be continued.
_UNKNOWN = "unknown"

#: Sends the GET with these headers.
Opener = Callable[[Mapping[str, str]], AbstractContextManager[HTTPResponse]]
#: Receives the bytes that are there, and those of the whole file; None: not known.
OnBytes = Callable[[int, "int | None"], None]


class TooLargeDownloadError(ClientError):
    """The server sends more than was to be accepted."""

    code = "too_large"


class Download:
    """One download. Until it is complete the file is beside its place, named after its version (ETag).

    Args:
        target: the file that is written or replaced.
        open_answer: sends the request.
        on_bytes: called with each part that arrives.
        accept: called with the complete file, before it gets its place; raises an error if it is not the right one.
        most_bytes: largest file that is accepted; None: any.
    """

    def __init__(
        self,
        target: Path,
        *,
        open_answer: Opener,
        on_bytes: OnBytes | None = None,
        accept: Callable[[Path], None] | None = None,
        most_bytes: int | None = None,
    ) -> None:
        self._target = target
        self._open_answer = open_answer
        self._on_bytes = on_bytes
        self._accept = accept
        self._accepted_bytes = float("inf") if most_bytes is None else most_bytes
        self._most_bytes = 0

    def run(self, retries: Retries) -> None:
        """Download the file, in several requests if answers are lost.

        Raises:
            ServerRefusedError: the server refuses it.
            NotReachableError: no more of it arrives.
            WrongUsageError: the file cannot be written.
            TooLargeDownloadError: it has more than the accepted bytes; nothing of it is kept.
        """
        try:
            while not self._attempt(retries):
                pass
        except OSError as error:
            raise WrongUsageError(f"{self._target} cannot be written ({error.strerror}).") from error

    def _attempt(self, retries: Retries) -> bool:
        """Request what is missing; return whether the file is complete."""
        part = next(iter(self._parts()), None)
        have = part.stat().st_size if part else 0
        try:
            with self._open_answer({"Range": f"bytes={have}-"} if have else {}) as response:
                version = _version(response)
                if response.status == HTTPStatus.PARTIAL_CONTENT:
                    _refuse_incomplete(response)
                    if part != self._part(version) or not _begins_at(response, have):
                        self._remove_parts()
                        return False
                else:
                    have = 0
                    self._remove_parts()
                whole = _with_length(response, have)
                self._receive(response, self._part(version), have=have, whole=whole, retries=retries)
                self._finish(self._part(version))
                return True
        except ServerRefusedError as error:
            if error.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
                raise
            self._remove_parts()
            return False
        except NotReachableError:
            if not retries.wait():
                # Nothing can continue it.
                self._part(_UNKNOWN).unlink(missing_ok=True)
                raise
            return False

    def _receive(self, response: HTTPResponse, part: Path, *, have: int, whole: int | None, retries: Retries) -> None:
        begin = have
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            self._refuse_too_large(whole or have)
            for chunk in _chunks(response):
                file.write(chunk)
                have += len(chunk)
                self._refuse_too_large(have)
                # What arrives again, of a version that cannot be continued, is no progress.
                if have > self._most_bytes:
                    self._most_bytes = have
                    retries.progressed()
                if self._on_bytes is not None:
                    self._on_bytes(have, whole)
        # A connection that ends early looks like the end of the answer, and headers that break off like an empty one.
        if have != whole if whole is not None else have == begin:
            raise NotReachableError(f"{self._target.name} did not arrive whole ({have} bytes did); try again.")

    def _refuse_too_large(self, size_bytes: int) -> None:
        if size_bytes > self._accepted_bytes:
            self._remove_parts()
            raise TooLargeDownloadError(f"{self._target.name} has more than {self._accepted_bytes} bytes.")

    def _finish(self, part: Path) -> None:
        if self._accept is not None:
            with ExitStack() as if_refused:
                if_refused.callback(part.unlink)
                self._accept(part)
                if_refused.pop_all()
        part.replace(self._target)

    def _parts(self) -> Iterator[Path]:
        """Yield what earlier attempts have left of versions that can be identified."""
        for path in self._target.parent.iterdir():
            name, _, version = path.name.removesuffix(".part").rpartition(".")
            if name == f".{self._target.name}" and path.name.endswith(".part") and version != _UNKNOWN:
                yield path

    def _part(self, version: str) -> Path:
        return self._target.with_name(f".{self._target.name}.{version}.part")

    def _remove_parts(self) -> None:
        for path in (*self._parts(), self._part(_UNKNOWN)):
            path.unlink(missing_ok=True)


def _refuse_incomplete(response: HTTPResponse) -> None:
    """Refuse a part whose headers broke off: what has arrived before is kept."""
    if _version(response) == _UNKNOWN or "Content-Range" not in response.headers:
        raise NotReachableError("The headers of the answer broke off; try again.")


def _version(response: HTTPResponse) -> str:
    etag = response.headers.get("ETag", "")
    # A weak one says that two versions look alike, not that their bytes are equal.
    return _UNKNOWN if not etag or etag.startswith("W/") else sha256(etag.encode()).hexdigest()[:16]


def _begins_at(response: HTTPResponse, first: int) -> bool:
    return response.headers.get("Content-Range", "").replace(" ", "").startswith(f"bytes{first}-")


def _with_length(response: HTTPResponse, have: int) -> int | None:
    return None if response.length is None else have + response.length


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(_CHUNK_BYTES)
        except (OSError, HTTPException) as error:
            raise NotReachableError(f"The answer ended early ({error}); try again.") from error
        if not chunk:
            return
        yield chunk
