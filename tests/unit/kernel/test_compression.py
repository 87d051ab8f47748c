"""Compression of answers: which are compressed, and that their content, order and ETag survive it."""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory
from django.urls import resolve
from django.utils.cache import get_conditional_response
from pytest_django import Settings
from whitenoise.middleware import WhiteNoiseMiddleware

from wms.kernel.compression import MIN_BYTES, Compression, accepts_gzip, without_compression

TEXT = "job 71 is waiting; " * 200
View = Callable[[HttpRequest], HttpResponseBase]


def asked(view: View, address: str = "/jobs/", **headers: str) -> HttpResponseBase:
    return Compression(view)(RequestFactory().get(address, headers={"Accept-Encoding": "gzip, br", **headers}))


def page(content: str = TEXT, content_type: str = "text/html; charset=utf-8", **headers: str) -> View:
    return lambda _request: HttpResponse(content, content_type=content_type, headers=headers)


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("*;q=0", False),
        ("br", False),
        ("identity", False),
        ("", False),
    ],
)
def test_accept_encoding_is_parsed(header: str, allowed: bool) -> None:
    assert accepts_gzip(header) is allowed


@pytest.mark.parametrize(
    "content_type",
    ["text/html", "text/css", "text/javascript", "application/json", "application/problem+json", "image/svg+xml"],
)
def test_texts_are_compressed_and_are_the_same_afterwards(content_type: str) -> None:
    response = asked(page(content_type=content_type))
    assert isinstance(response, HttpResponse)
    assert response["Content-Encoding"] == "gzip"
    assert response["Vary"] == "Accept-Encoding"
    assert int(response["Content-Length"]) == len(response.content) < len(TEXT) / 5
    assert gzip.decompress(response.content).decode() == TEXT


@pytest.mark.parametrize(
    "view",
    [
        page("x" * (MIN_BYTES - 1)),
        page(content_type="application/gzip"),
        page(content_type="application/octet-stream"),
        page(**{"Content-Encoding": "br"}),
        page(**{"Content-Range": "bytes 0-9/100"}),
        page(**{"Cache-Control": "no-transform"}),
    ],
    ids=["short", "archive", "unknown", "compressed", "part of a file", "not to be changed"],
)
def test_other_answers_stay_as_they_are(view: View) -> None:
    response, before = asked(view), view(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    assert isinstance(before, HttpResponse)
    assert response.content == before.content
    assert dict(response.headers) == dict(before.headers)


def test_a_client_without_gzip_gets_plain_text_and_vary_is_set() -> None:
    response = asked(page(), **{"Accept-Encoding": "identity"})
    assert isinstance(response, HttpResponse)
    assert (response.content.decode(), response["Vary"]) == (TEXT, "Accept-Encoding")


def test_the_same_page_has_another_length_each_time() -> None:
    """So that its length does not disclose what is in it (BREACH)."""
    lengths = {int(asked(page())["Content-Length"]) for _ in range(50)}
    assert len(lengths) > 10
    assert max(lengths) - min(lengths) < 100


def test_an_answer_with_a_secret_is_neither_compressed_nor_stored() -> None:
    response = asked(lambda request: without_compression(HttpResponse(TEXT)))
    assert not response.has_header("Content-Encoding")
    assert {"private", "no-store", "no-transform"} <= set(response["Cache-Control"].split(", "))


@pytest.mark.parametrize(
    "address", ["/api/v1/matches/", "/api/v1/matches/00000000-0000-0000-0000-000000000007/heartbeat/"]
)
def test_answers_to_machines_stay_as_they_are(address: str) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        request.resolver_match = resolve(address)
        return HttpResponse(TEXT, content_type="application/json")

    response = asked(view, address)
    assert isinstance(response, HttpResponse)
    assert (response.content.decode(), response.has_header("Vary")) == (TEXT, False)


def test_parts_of_a_compressed_stream_are_flushed() -> None:
    asked_for: list[int] = []

    def rows() -> Iterator[bytes]:
        for number in range(3):
            asked_for.append(number)
            yield f"{number},scan-{number}\n".encode()

    response = asked(lambda _request: StreamingHttpResponse(rows(), content_type="text/csv"))
    assert isinstance(response, StreamingHttpResponse)
    reader, received = zlib.decompressobj(wbits=31), b""
    stream: Iterator[bytes] = iter(response)
    for number in range(3):
        while received.count(b"\n") <= number:
            received += reader.decompress(next(stream))
        assert asked_for == list(range(number + 1))  # no later part was needed to read this one
    received += b"".join(map(reader.decompress, stream)) + reader.flush()
    assert received == b"0,scan-0\n1,scan-1\n2,scan-2\n"
    assert not response.has_header("Content-Length")


@pytest.mark.parametrize("known", ['W/"abc"', '"abc"', '"x", W/"abc"', "*"])
def test_the_tag_of_a_compressed_page_matches_when_it_comes_back(known: str) -> None:
    def view(request: HttpRequest) -> HttpResponseBase:
        response = HttpResponse(TEXT, headers={"ETag": '"abc"'})
        return get_conditional_response(request, etag='"abc"', response=response) or response

    assert asked(view)["ETag"] == 'W/"abc"'
    assert asked(view, **{"If-None-Match": known}).status_code == 304


def test_a_tag_that_ends_like_a_weak_mark_is_left_whole() -> None:
    seen: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(request.headers["If-None-Match"])
        return HttpResponse()

    asked(view, **{"If-None-Match": 'W/"aW/", "bW/"'})
    assert seen == ['"aW/", "bW/"']


# ---- style sheets and scripts ----------------------------------------------------------------------------------------

SHEET = "tr { height: 32px }\n" * 500


def content_of(response: HttpResponseBase) -> bytes:
    assert isinstance(response, StreamingHttpResponse)
    content = response.getvalue()
    # Its ``close`` would look at the database.
    for close in response._resource_closers:  # type: ignore[attr-defined]  # not in the stubs
        close()
    return content


def static_files(directory: Path, settings: Settings) -> View:
    settings.STATIC_ROOT = str(directory)
    view: View = WhiteNoiseMiddleware(lambda _request: HttpResponse(status=404))
    return view


def test_files_of_packages_are_compressed_when_they_are_sent(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "portal.css").write_text(SHEET)
    view = static_files(tmp_path, settings)
    response = asked(view, "/static/portal.css")
    assert gzip.decompress(content_of(response)).decode() == SHEET
    assert asked(view, "/static/portal.css", **{"If-None-Match": response["ETag"]}).status_code == 304
    part = asked(view, "/static/portal.css", Range="bytes=0-9")
    assert content_of(part) == SHEET[:10].encode()


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_collected_files_are_compressed_once(tmp_path: Path, settings: Settings, umask: None) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "portal.css").write_text(SHEET)
    settings.STATICFILES_DIRS = [tmp_path / "sources"]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = str(tmp_path / "static")
    settings.STORAGES = dict(configured.STORAGES)
    call_command("collectstatic", interactive=False, verbosity=0)
    compressed = tmp_path / "static" / "portal.css.gz"
    assert gzip.decompress(compressed.read_bytes()).decode() == SHEET
    assert stat.S_IMODE(compressed.stat().st_mode) == 0o644  # a proxy under another account may serve it
    response = asked(static_files(tmp_path / "static", settings), "/static/portal.css")
    assert content_of(response) == compressed.read_bytes()
