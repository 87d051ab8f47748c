"""Compressed answers (gzip): pages, style sheets, scripts, and JSON and texts of the REST interface.

The length of a compressed page can disclose a secret in it to who can put texts into the page (BREACH). Against that:
Django masks the CSRF token of a page anew in each answer; each compressed answer has up to 99 random bytes more (Heal
the BREACH); and pages that show a token, a code or a link are not compressed (``without_compression``).
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from gzip import GzipFile
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.text import StreamingBuffer, compress_string
from whitenoise.storage import CompressedStaticFilesStorage

from wms.kernel.fast.views import FastView

#: A shorter answer fits into one packet as it is.
MIN_BYTES: Final = 1000
#: Further random bytes of a compressed answer: fewer than this, in its header.
_RANDOM_BYTES: Final = 100
#: 6, as Django's own: of a page of 100 kB 3 ms, and a tenth of the bytes are left.
_LEVEL: Final = 6
#: Types whose content is text; archives and pictures are compressed already.
_TEXTS: Final = re.compile(
    r"text/|image/svg\+xml|application/([\w.-]+\+)?(json|xml|yaml|javascript)|application/vnd\.oai\.openapi"
)
_WEAK: Final = re.compile(r'(^|,)(\s*)W/(?=")')
#: Value of Cache-Control of answers that are sent as they are, also by proxies.
_AS_IT_IS: Final = "no-transform"

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


class Compression:
    """Compress answers for clients that accept gzip.

    Not touched are answers to machines, of which most never come here, answers that say ``no-transform``, and parts of
    files. A stream stays a stream: each part is compressed and sent when it is there.

    The ETag of a compressed answer is weak. It matches all the same when the client sends it back: If-None-Match is
    compared weakly (RFC 9110, 13.1.2), so its marks are removed before anybody compares it as a text.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request."""
        known = request.META.get("HTTP_IF_NONE_MATCH")
        if known is not None and "W/" in known:
            request.META["HTTP_IF_NONE_MATCH"] = _WEAK.sub(r"\1\2", known)
        response = self.get_response(request)
        if not _is_text(response) or _is_of_machine(request):
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        if accepts_gzip(request.META.get("HTTP_ACCEPT_ENCODING", "")):
            _compress(response)
        return response


def without_compression(response: R) -> R:
    """Return the answer, which holds a secret, marked so that neither this server nor a proxy compresses it."""
    patch_cache_control(response, private=True, no_store=True, no_transform=True)
    return response


def shows_secret(view: Callable[P, R]) -> Callable[P, R]:
    """Return the view of a page that shows a secret, whose answers are not compressed."""

    @wraps(view)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        return without_compression(view(*args, **kwargs))

    return shown


def accepts_gzip(header: str) -> bool:
    """Return whether an Accept-Encoding allows gzip; a quality of 0 forbids it."""
    qualities = {}
    for entry in header.lower().split(","):
        coding, _, parameters = entry.partition(";")
        qualities[coding.strip()] = not re.fullmatch(r"\s*q=0(\.0*)?\s*", parameters)
    return qualities.get("gzip", qualities.get("*", False))


def _is_of_machine(request: HttpRequest) -> bool:
    match = request.resolver_match
    view = getattr(match.func, "cls", None) if match is not None else None
    return isinstance(view, type) and issubclass(view, FastView)


def _is_text(response: HttpResponseBase) -> bool:
    if isinstance(response, HttpResponse) and len(response.content) < MIN_BYTES:
        return False
    if response.has_header("Content-Encoding") or response.has_header("Content-Range"):
        return False
    is_kept = _AS_IT_IS in response.get("Cache-Control", "")
    return not is_kept and _TEXTS.match(response.get("Content-Type", "")) is not None


def _compress(response: HttpResponseBase) -> None:
    if isinstance(response, HttpResponse):
        response.content = compress_string(response.content, max_random_bytes=_RANDOM_BYTES)
        response.headers["Content-Length"] = str(len(response.content))
    elif isinstance(response, StreamingHttpResponse) and not response.is_async:
        # Parts of a file are all there: to send each at once would make the whole longer.
        parts: Iterable[bytes] = response.streaming_content  # type: ignore[assignment]  # not of an asynchronous one
        response.streaming_content = _compressed(parts, at_once=not isinstance(response, FileResponse))
        del response.headers["Content-Length"]
    else:
        return
    tag = response.get("ETag", "")
    if tag.startswith('"'):
        response.headers["ETag"] = f"W/{tag}"
    response.headers["Content-Encoding"] = "gzip"


def _compressed(parts: Iterable[bytes], *, at_once: bool) -> Iterator[bytes]:
    """Yield the stream; *at_once*: what was yielded so far is all that the client needs to read the parts so far."""
    buffer = StreamingBuffer()
    padding = "a" * secrets.randbelow(_RANDOM_BYTES)
    with GzipFile(filename=padding, mode="wb", compresslevel=_LEVEL, fileobj=buffer, mtime=0) as compressor:
        for part in parts:
            compressor.write(part)
            if at_once:
                compressor.flush()
            if compressed := buffer.read():
                yield compressed
    yield buffer.read()


class CompressedFiles(CompressedStaticFilesStorage):
    """Files of ``collectstatic``, compressed once there; WhiteNoise sends the form that the client accepts."""

    def post_process(
        self,
        paths: dict[str, object],
        dry_run: bool = False,
        **options: object,
    ) -> Iterator[tuple[str, str, bool]]:
        """Compress the files; the new ones are readable as the others are, whatever the umask."""
        for name, compressed, is_processed in super().post_process(paths, dry_run, **options):
            Path(self.path(compressed)).chmod(self.file_permissions_mode or 0o644)
            yield name, compressed, is_processed
