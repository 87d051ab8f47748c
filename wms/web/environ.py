"""The WSGI environment of a request of granian's RSGI interface."""

import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from whitenoise.responders import SlicedFile

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

    from granian.rsgi import Scope

#: WSGI names of headers; the number of cached names is limited, as clients may invent some.
_NAMES: Final[dict[str, str]] = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_MOST_NAMES: Final = 1000


class FilePlace(NamedTuple):
    """Bytes of a file, from *start* to before *stop*."""

    path: str
    start: int
    stop: int
    is_whole: bool


class FileBody:
    """An answer that is a file (``wsgi.file_wrapper``), which granian can send without a Python thread."""

    def __init__(self, file: IO[bytes], block_size: int = 64 * 1024) -> None:
        self._file = file
        self._block_size = block_size

    def __iter__(self) -> Iterator[bytes]:
        while block := self._file.read(self._block_size):
            yield block

    def close(self) -> None:
        """Close the file, and with it Django's answer."""
        self._file.close()

    def place(self) -> FilePlace | None:
        """Return the place of the answer's bytes if it is a file of this machine, or one part of it, else None."""
        part = self._file if isinstance(self._file, SlicedFile) else None
        file: IO[bytes] = self._file if part is None else part.fileobj
        path = getattr(file, "name", None)
        try:
            # Some file-like objects have no descriptor.
            start, size_bytes = file.tell(), os.fstat(file.fileno()).st_size
            same = isinstance(path, str) and os.path.samestat(Path(path).stat(), os.fstat(file.fileno()))
        except (AttributeError, OSError, ValueError):
            return None
        stop = size_bytes if part is None else start + part.remaining
        return FilePlace(str(path), start, stop, is_whole=start == 0 and stop == size_bytes) if same else None


def environ_of(scope: "Scope", *, prefix: str) -> "WSGIEnvironment":
    """Return the environment of a request, without a body.

    Args:
        scope: the request in granian's form.
        prefix: of all paths, such as ``/wms``; SCRIPT_NAME.
    """
    path = scope.path
    if prefix:
        path = path.removeprefix(prefix) or "/"
    server_name, _, server_port = scope.server.rpartition(":")
    environ: WSGIEnvironment = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileBody,
        "SERVER_SOFTWARE": "granian",
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "SERVER_NAME": server_name,
        "SERVER_PORT": server_port,
        "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": prefix,
        # WSGI's texts hold one byte in each character.
        "PATH_INFO": path if path.isascii() else path.encode().decode("latin-1"),
        "QUERY_STRING": scope.query_string,
    }
    _add_headers(environ, scope)
    return environ


def _add_headers(environ: "WSGIEnvironment", scope: "Scope") -> None:
    """Add the headers of a request.

    A header whose name has an underscore is left out: WSGI could not distinguish it from the one with a hyphen, such as
    ``X_Forwarded_For`` from the header of a proxy.
    """
    for header, value in scope.headers.items():
        name = _NAMES.get(header) or _name_of(header)
        if name in environ:  # one header, sent in parts
            environ[name] += f"{'; ' if name == 'HTTP_COOKIE' else ','}{value}"
        elif name:
            environ[name] = value
    if "HTTP_HOST" not in environ and scope.authority:
        environ["HTTP_HOST"] = scope.authority


def _name_of(header: str) -> str:
    name = "" if "_" in header else f"HTTP_{header.upper().replace('-', '_')}"
    if len(_NAMES) < _MOST_NAMES:
        _NAMES[header] = name
    return name
