"""Answers that are a stored file: all of it, or the part that a request names (RFC 9110, section 14)."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import IO, Any, Final

from django.http import FileResponse, HttpRequest
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from whitenoise.responders import SlicedFile

from wms.kernel.errors import UnsatisfiableRangeError

#: One range of bytes. Several, and other units, are ignored: the answer is the whole file.
_RANGE: Final = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE | re.ASCII)


def file_answer(
    request: HttpRequest | Request,
    content: IO[bytes],
    *,
    version: str,
    size_bytes: int,
    **options: Any,  # noqa: ANN401 - those of the framework
) -> FileResponse:
    """Return the answer with a file, or with the part that the headers Range and If-Range ask for.

    Args:
        request: GET or HEAD.
        content: the open file, which the answer closes.
        version: identifies the bytes of the content; becomes its ETag.
        size_bytes: length of the content.
        options: of ``FileResponse``, such as ``filename``.

    Raises:
        UnsatisfiableRangeError: the part begins behind the end of the file, which is closed.
    """
    etag = f'"{version}"'
    try:
        part = requested_part(request, etag=etag, size_bytes=size_bytes)
    except UnsatisfiableRangeError:
        content.close()
        raise
    if part is None:
        answer = FileResponse(content, **options)
    else:
        answer = FileResponse(
            SlicedFile(content, part.start, part.stop - 1), status=HTTPStatus.PARTIAL_CONTENT, **options
        )
        answer.headers["Content-Length"] = str(len(part))
        answer.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size_bytes}"
    answer.headers["Accept-Ranges"] = "bytes"
    answer.headers["ETag"] = etag
    return answer


def requested_part(request: HttpRequest | Request, *, etag: str, size_bytes: int) -> range | None:
    """Return the bytes that a request asks for; None: the whole file.

    Args:
        request: as of ``file_answer``.
        etag: of the file as it is. A request for a part of another version (If-Range) gets the whole file.
        size_bytes: as of ``file_answer``.

    Raises:
        UnsatisfiableRangeError: the file has none of them.
    """
    named = _RANGE.fullmatch(request.headers.get("Range", "")) if request.method == "GET" else None
    if named is None or request.headers.get("If-Range", etag).strip() != etag:
        return None
    first, last = named[1], named[2]
    if not (first or last) or (first and last and int(last) < int(first)):
        return None
    start = int(first) if first else max(0, size_bytes - int(last))
    stop = min(int(last) + 1, size_bytes) if first and last else size_bytes
    if start >= stop:
        raise UnsatisfiableRangeError(
            f"The file has {size_bytes} bytes, none of them in this range; ask without Range.", size_bytes=size_bytes
        )
    return range(start, stop)


class AnyClientNegotiation(DefaultContentNegotiation):
    """For views that answer with a file in one format; errors are JSON, also for clients that accept only the file."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer that the client accepts, or the first if it accepts none."""
        try:
            chosen: tuple[BaseRenderer, str] = super().select_renderer(request, renderers, format_suffix)
        except NotAcceptable:
            first = next(iter(renderers))
            return first, str(first.media_type)
        return chosen
