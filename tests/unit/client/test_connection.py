"""The connection to a server: retries, uploads, downloads and streams, against a scripted server over real sockets."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from wms.client.connection import Connection
from wms.client.errors import NotReachableError, ServerRefusedError, WrongUsageError
from wms.wire.version import __version__


class Asked(BaseHTTPRequestHandler):
    """One connection of a client; the scripted server sets the class attributes."""

    protocol_version = "HTTP/1.1"
    script: list[Callable[["Asked"], None]]
    requests: list[tuple[str, str, bytes]]
    sent_headers: list[dict[str, str]]
    connections: set[object]

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.command, self.path, content))
        self.sent_headers.append(dict(self.headers))
        self.connections.add(self.client_address)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        step(self)

    do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815 - the framework's names

    def log_message(self, *args: object) -> None:
        pass


class ScriptedServer:
    """A server that gives the answers of a script one after another, the last one for ever."""

    def __init__(self) -> None:
        self.handler = type("Handler", (Asked,), {"requests": [], "sent_headers": [], "connections": set()})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def script(self, *steps: Callable[[Asked], None]) -> None:
        self.handler.script = list(steps)  # type: ignore[attr-defined]

    @property
    def requests(self) -> list[tuple[str, str, bytes]]:
        return self.handler.requests  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


@pytest.fixture
def connection(server: ScriptedServer) -> Iterator[Connection]:
    made = Connection(server.url, token="secret")
    yield made
    made.close()


def answer(status: int, body: object = None, **headers: str) -> Callable[[Asked], None]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def step(asked: Asked) -> None:
        asked.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            asked.send_header(name.replace("_", "-"), value)
        asked.end_headers()
        asked.wfile.write(content)

    return step


def lost(asked: Asked) -> None:
    """Close the connection without an answer."""
    asked.close_connection = True


def cut(content: bytes, *, after: int, **headers: str) -> Callable[[Asked], None]:
    """Send only the beginning of an answer."""

    def step(asked: Asked) -> None:
        asked.send_response(200)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            asked.send_header(name.replace("_", "-"), value)
        asked.end_headers()
        asked.wfile.write(content[:after])
        asked.close_connection = True

    return step


BUSY = {"code": "rate_exceeded", "detail": "Wait."}


# ---- Retries ---------------------------------------------------------------------------------------------------------


def cut_in_headers(asked: Asked) -> None:
    """Break off in the headers, before the length of the body."""
    asked.wfile.write(b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan")
    asked.close_connection = True


@pytest.mark.parametrize(
    "trouble",
    [
        lost,
        cut_in_headers,
        cut(b'{"id": 1}', after=4),
        answer(502),
        answer(503),
        answer(504),
        answer(503, Retry_After="0"),
        answer(429, BUSY, Retry_After="0"),
        answer(429, BUSY, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"),
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_repeatable_request_is_sent_again(
    server: ScriptedServer, connection: Connection, trouble: Callable[[Asked], None], method: str
) -> None:
    server.script(trouble, trouble, answer(200, {"id": 1}))
    if method == "get":
        assert connection.get("/x/", expects="id") == {"id": 1}
    else:
        assert connection.post("/x/", {"a": 1}, repeatable=True) == {"id": 1}
        assert {content for _, _, content in server.requests} == {b'{"a": 1}'}
    assert len(server.requests) == 3


@pytest.mark.parametrize("trouble", [lost, answer(502), answer(503, Retry_After="0"), answer(504), answer(500)])
def test_another_request_is_sent_once(
    server: ScriptedServer, connection: Connection, trouble: Callable[[Asked], None]
) -> None:
    server.script(trouble)
    with pytest.raises(NotReachableError):
        connection.post("/x/", {})
    assert len(server.requests) == 1


def test_too_many_requests_have_changed_nothing_so_any_is_sent_again(
    server: ScriptedServer, connection: Connection
) -> None:
    server.script(answer(429, BUSY, Retry_After="0"), answer(201, {"id": 1}))
    assert connection.post("/x/", {}) == {"id": 1}


def test_a_wait_that_would_be_too_long_is_not_begun(server: ScriptedServer, connection: Connection) -> None:
    server.script(answer(429, BUSY, Retry_After="86400"))
    with pytest.raises(ServerRefusedError, match=r"Wait\.") as refused:
        connection.get("/x/")
    assert (refused.value.status, refused.value.code) == (429, "rate_exceeded")
    assert len(server.requests) == 1


def test_attempts_end_after_the_total_time(server: ScriptedServer) -> None:
    impatient = Connection(server.url, retry_s=0.5)
    server.script(lost)
    with pytest.raises(NotReachableError):
        impatient.get("/x/")
    assert 1 < len(server.requests) < 10


def test_an_internal_error_is_not_sent_again(server: ScriptedServer, connection: Connection) -> None:
    server.script(answer(500))
    with pytest.raises(NotReachableError, match="status 500"):
        connection.get("/x/")
    assert len(server.requests) == 1


def test_an_answer_without_end_is_given_up(
    server: ScriptedServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.client.connection.MAX_ANSWER_BYTES", 100_000)
    server.script(answer(200, {"id": "x" * 100_000}))
    with pytest.raises(NotReachableError, match="more than 100,000 bytes"):
        connection.get("/x/")
    assert len(server.requests) == 1


def test_a_server_that_is_away_for_a_moment_is_awaited_but_not_one_that_never_answered() -> None:
    first = ScriptedServer()
    first.script(answer(200, {"id": 1}))
    connection = Connection(first.url, retry_s=0.5)
    assert connection.get("/x/") == {"id": 1}
    first.close()
    connection.close()
    with pytest.raises(NotReachableError):
        connection.post("/x/")
    # Never reached: the first failure is final, and takes none of the time.
    with pytest.raises(NotReachableError, match="check the address"):
        Connection(first.url, retry_s=1e9).get("/x/")


# ---- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "sentence"),
    [
        ({"code": "not_found", "detail": "No job."}, "not_found", "No job."),
        (
            {"type": "https://a/errors/x", "title": "X", "status": 404, "detail": "No job.", "code": "y", "errors": {}},
            "y",
            "No job.",
        ),
        ({"type": "https://a/errors/gone/", "title": "It is gone.", "status": 404}, "gone", "It is gone."),
    ],
)
def test_problems_are_read_in_both_shapes(
    server: ScriptedServer, connection: Connection, body: dict[str, object], code: str, sentence: str
) -> None:
    server.script(answer(404, body, Content_Type="application/problem+json"))
    with pytest.raises(ServerRefusedError) as refused:
        connection.delete("/x/")
    assert (refused.value.code, str(refused.value), refused.value.as_json()) == (code, sentence, body)


def test_fields_that_are_wrong_are_named(server: ScriptedServer, connection: Connection) -> None:
    server.script(answer(400, {"code": "a", "detail": "b", "errors": {"jobs.3.executable": ["It is required."]}}))
    with pytest.raises(ServerRefusedError) as refused:
        connection.patch("/x/", {})
    assert refused.value.errors == {"jobs.3.executable": ["It is required."]}


# ---- Connections -----------------------------------------------------------------------------------------------------


def test_requests_one_after_another_use_one_connection(server: ScriptedServer, connection: Connection) -> None:
    server.script(answer(200, {"id": 1}))
    for _ in range(5):
        connection.get("/x/")
    assert len(server.handler.connections) == 1  # type: ignore[attr-defined]
    headers = server.handler.sent_headers[0]  # type: ignore[attr-defined]
    assert headers["Authorization"] == "Bearer secret"
    assert headers["User-Agent"] == f"wms-client/{__version__}"


def test_threads_may_share_it(server: ScriptedServer, connection: Connection) -> None:
    def echo(asked: Asked) -> None:
        answer(200, {"path": asked.path})(asked)

    server.script(echo)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda number: connection.get(f"/{number}/")["path"], range(200)))
    assert answers == [f"/{number}/" for number in range(200)]
    assert len(server.handler.connections) <= 8  # type: ignore[attr-defined]


def test_a_kept_connection_that_the_server_has_closed_is_replaced(
    server: ScriptedServer, connection: Connection
) -> None:
    def closes(asked: Asked) -> None:
        answer(200, {"id": 1})(asked)
        asked.close_connection = True

    server.script(closes)
    assert [connection.get("/x/"), connection.post("/x/"), connection.get("/x/")] == [{"id": 1}] * 3
    assert len(server.requests) == 3


def test_a_proxy_of_the_environment_is_used(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "near.example.org")
    server.script(answer(200, {"id": 1}))
    assert Connection("http://far.example.org/wms").get("/x/") == {"id": 1}
    assert server.requests[0][1] == "http://far.example.org/wms/x/"
    with pytest.raises(NotReachableError):
        Connection("http://near.example.org:1", timeout_s=5).get("/x/")
    assert len(server.requests) == 1


def test_a_proxy_receives_the_credentials_of_its_address(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//alice:p%40ss@"))
    monkeypatch.delenv("no_proxy", raising=False)
    server.script(answer(200, {"id": 1}))
    assert Connection("http://far.example.org").get("/x/") == {"id": 1}
    credentials = b64encode(b"alice:p@ss").decode()
    assert server.handler.sent_headers[0]["Proxy-Authorization"] == f"Basic {credentials}"  # type: ignore[attr-defined]


def test_lists_are_read_page_by_page_from_the_named_server(server: ScriptedServer, connection: Connection) -> None:
    server.script(
        answer(200, {"next": "http://elsewhere/api/v1/jobs/?cursor=a%2Bb", "results": [{"id": 2}, {"id": 1}]}),
        answer(200, {"next": None, "results": [{"id": 0}]}),
    )
    assert [row["id"] for row in connection.rows("/jobs/", query={"site": "A & B"})] == [2, 1, 0]
    assert [path for _, path, _ in server.requests] == ["/jobs/?site=A+%26+B", "/jobs/?cursor=a%2Bb"]


# ---- Files -----------------------------------------------------------------------------------------------------------


def test_an_upload_is_one_part_with_the_files_name_and_content(
    server: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    file = tmp_path / 'a "quoted" näme.bin'
    file.write_bytes(content := bytes(range(256)) * 4096)
    server.script(lost, answer(201, {"sandbox": "sha256:0"}))
    assert connection.upload("/s/", file, expects="sandbox") == {"sandbox": "sha256:0"}
    (_, _, first), (_, _, body) = server.requests
    assert first == body
    head, _, rest = body.partition(b"\r\n\r\n")
    boundary, disposition, _ = head.decode().split("\r\n")
    assert disposition == 'Content-Disposition: form-data; name="file"; filename="a %22quoted%22 näme.bin"'
    assert rest == content + f"\r\n{boundary}--\r\n".encode()
    assert f"boundary={boundary[2:]}" in server.handler.sent_headers[0]["Content-Type"]  # type: ignore[attr-defined]


def test_a_large_upload_that_is_refused_before_it_is_read_shows_the_refusal(
    server: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    (file := tmp_path / "large").write_bytes(b"0" * 50_000_000)

    def refuses(asked: Asked) -> None:
        answer(413, {"code": "too_large", "detail": "Too large.", "errors": {}})(asked)
        asked.close_connection = True

    server.handler.do_POST = refuses  # type: ignore[attr-defined]
    with pytest.raises((ServerRefusedError, NotReachableError)):
        connection.upload("/s/", file)


def test_an_unreadable_file_is_not_uploaded(connection: Connection, tmp_path: Path) -> None:
    with pytest.raises(WrongUsageError, match="cannot be read"):
        connection.upload("/s/", tmp_path / "missing")


CONTENT = bytes(range(256)) * 40_000


def with_ranges(content: bytes, etag: str) -> Callable[[Asked], None]:
    """Answer a request for the rest of a file with that rest."""

    def step(asked: Asked) -> None:
        named = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("Range", ""))
        if named is None:
            answer(200, content, ETag=etag)(asked)
        elif (first := int(named[1])) >= len(content):
            answer(416, {"code": "range", "detail": "No."})(asked)
        else:
            at = f"bytes {first}-{len(content) - 1}/{len(content)}"
            answer(206, content[first:], ETag=etag, Content_Range=at)(asked)

    return step


def ranges(server: ScriptedServer) -> list[str | None]:
    return [headers.get("Range") for headers in server.handler.sent_headers]  # type: ignore[attr-defined]


def test_a_download_that_is_cut_continues_there(server: ScriptedServer, connection: Connection, tmp_path: Path) -> None:
    server.script(cut(CONTENT, after=5_000_000, ETag='"1"'), with_ranges(CONTENT, '"1"'))
    seen: list[tuple[int, int | None]] = []
    connection.download("/f", tmp_path / "f", on_bytes=lambda have, whole: seen.append((have, whole)))
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert ranges(server)[0] is None
    assert ranges(server)[1] == "bytes=5000000-"
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_download_that_is_cut_in_its_headers_is_no_empty_file(
    server: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    server.script(cut_in_headers, answer(200, CONTENT))
    connection.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT


def test_a_later_run_continues_a_download(server: ScriptedServer, tmp_path: Path) -> None:
    server.script(cut(CONTENT, after=5_000_000, ETag='"1"'), lost)
    with pytest.raises(NotReachableError):
        Connection(server.url, retry_s=0).download("/f", tmp_path / "f")
    assert not (tmp_path / "f").exists()
    server.script(with_ranges(CONTENT, '"1"'))
    Connection(server.url).download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert ranges(server)[-1] == "bytes=5000000-"


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(with_ranges(CONTENT[::-1], '"2"'), id="another version"),
        pytest.param(with_ranges(CONTENT[:7], '"2"'), id="shorter"),
        pytest.param(answer(200, CONTENT[::-1], ETag='"2"'), id="no ranges"),
        pytest.param(answer(200, CONTENT[::-1]), id="no version"),
    ],
)
def test_a_download_of_another_version_begins_anew(
    server: ScriptedServer, connection: Connection, tmp_path: Path, then: Callable[[Asked], None]
) -> None:
    server.script(cut(CONTENT, after=5_000_000, ETag='"1"'), then)
    connection.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() in {CONTENT[::-1], CONTENT[:7]}
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"1"'}], ids=["none", "weak"])
def test_a_version_that_is_not_identified_is_never_continued(
    server: ScriptedServer, connection: Connection, tmp_path: Path, headers: dict[str, str]
) -> None:
    server.script(cut(CONTENT, after=5_000_000, **headers), answer(200, CONTENT[::-1], **headers))
    connection.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT[::-1]
    assert ranges(server) == [None, None]


def test_a_refused_download_keeps_the_existing_file(
    server: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("old")
    server.script(answer(404, {"code": "no_output", "detail": "None yet."}))
    with pytest.raises(ServerRefusedError, match="None yet"):
        connection.download("/f", tmp_path / "f")
    assert (tmp_path / "f").read_text() == "old"


def test_a_download_into_no_directory_is_wrong_usage(
    server: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    server.script(answer(200, b"x"))
    with pytest.raises(WrongUsageError, match="cannot be written"):
        connection.download("/f", tmp_path / "missing" / "f")


# ---- Streams ---------------------------------------------------------------------------------------------------------


def test_lines_arrive_one_by_one(server: ScriptedServer, connection: Connection) -> None:
    received: list[Any] = []

    def stream(asked: Asked) -> None:
        asked.send_response(200)
        asked.send_header("Transfer-Encoding", "chunked")
        asked.end_headers()
        for number in range(3):
            line = b'{"number": %d}\n\n' % number
            asked.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        asked.wfile.write(b"0\r\n\r\n")

    server.script(stream)
    received.extend(connection.lines("/events/"))
    assert received == [{"number": 0}, {"number": 1}, {"number": 2}]


def test_a_stream_that_ends_early_is_an_error_after_its_lines(server: ScriptedServer, connection: Connection) -> None:
    def stream(asked: Asked) -> None:
        asked.send_response(200)
        asked.send_header("Transfer-Encoding", "chunked")
        asked.end_headers()
        asked.wfile.write(b'c\r\n{"number":0}\r\n1\r\n\n\r\n')
        asked.close_connection = True

    server.script(stream)
    lines = connection.lines("/events/")
    assert next(lines) == {"number": 0}
    with pytest.raises(NotReachableError):
        next(lines)
