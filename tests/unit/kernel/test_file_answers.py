"""Answers with a file: the part that a request asks for."""

import io

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from wms.kernel.errors import UnsatisfiableRangeError
from wms.kernel.file_answers import file_answer

CONTENT = bytes(range(100))
WHOLE = (200, CONTENT, None)


def asked(content: bytes = CONTENT, /, method: str = "GET", **headers: str) -> tuple[int, bytes, str | None]:
    """Return status, body and Content-Range."""
    request = RequestFactory().generic(method, "/", headers={name.replace("_", "-"): headers[name] for name in headers})
    opened = io.BytesIO(content)
    answer = file_answer(request, opened, version="v1", size_bytes=len(content), filename="f.tar.gz")
    assert (answer["ETag"], answer["Accept-Ranges"], answer["Content-Type"]) == ('"v1"', "bytes", "application/gzip")
    body = b"".join(answer)
    assert int(answer["Content-Length"]) == len(body)
    answer.close()
    assert opened.closed
    return answer.status_code, body, answer.get("Content-Range")


@given(content=st.binary(max_size=50), first=st.integers(0, 60), last=st.none() | st.integers(0, 60))
def test_a_range_returns_its_bytes(content: bytes, first: int, last: int | None) -> None:
    header = f"bytes={first}-{'' if last is None else last}"
    if last is not None and last < first:
        assert asked(content, Range=header) == (200, content, None)
    elif first >= len(content):
        with pytest.raises(UnsatisfiableRangeError) as refused:
            asked(content, Range=header)
        assert refused.value.size_bytes == len(content)
    else:
        part = content[first:] if last is None else content[first : last + 1]
        named = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        assert asked(content, Range=header) == (206, part, named)


@given(content=st.binary(min_size=1, max_size=50), length=st.integers(1, 60))
def test_a_suffix_range_returns_the_last_bytes(content: bytes, length: int) -> None:
    status, body, _ = asked(content, Range=f"bytes=-{length}")
    assert (status, body) == (206, content[-length:])


@given(content=st.binary(max_size=50), cuts=st.lists(st.integers(0, 50)))
def test_a_download_in_pieces_is_the_file(content: bytes, cuts: list[int]) -> None:
    received = b""
    for cut in cuts:
        if len(received) < len(content):
            received += asked(content, Range=f"bytes={len(received)}-", If_Range='"v1"')[1][:cut]
    if len(received) < len(content):
        received += asked(content, Range=f"bytes={len(received)}-", If_Range='"v1"')[1]
    assert received == content


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Range": "bytes=0-1,4-5"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=-"},
        {"Range": "bytes=a-"},
        {"Range": "bytes=5-1"},
        {"Range": "bytes=١-"},
        {"Range": "bytes=" + 5000 * "9" + "-"},
        {"Range": "bytes=1-", "If_Range": '"v0"'},
        {"Range": "bytes=1-", "If_Range": 'W/"v1"'},
        {"Range": "bytes=1-", "If_Range": "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"Range": "bytes=1-", "method": "HEAD"},
    ],
)
def test_an_if_range_mismatch_returns_the_whole_file(headers: dict[str, str]) -> None:
    assert asked(**headers) == WHOLE


def test_range_headers_may_contain_spaces_and_any_case() -> None:
    assert asked(Range=" Bytes = 98 - 200 ", If_Range=' "v1" ') == (206, CONTENT[98:], "bytes 98-99/100")


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=-0", "bytes=999-1000"])
def test_an_unsatisfiable_range_is_refused_and_the_file_closed(header: str) -> None:
    opened = io.BytesIO(CONTENT)
    request = RequestFactory().get("/", headers={"Range": header})
    with pytest.raises(UnsatisfiableRangeError):
        file_answer(request, opened, version="v1", size_bytes=len(CONTENT))
    assert opened.closed
