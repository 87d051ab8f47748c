"""Answers that are made piece by piece while they are sent."""

import threading
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from django.http import FileResponse

from tests.pace import wait_for, within
from wms.web import answers
from wms.web.answers import answer
from wms.web.streams import StreamedAnswers

PIECE = b"x" * 65_536


class Body:
    """A streaming answer of Django; it notes the pieces that were made."""

    streaming = True

    def __init__(self, pieces: int, *, fails: bool = False) -> None:
        self.pieces, self.fails = pieces, fails
        self.made = 0
        self.is_closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self.pieces):
            self.made += 1
            yield PIECE
        if self.fails:
            raise OSError("the disk is broken")

    def close(self) -> None:
        self.is_closed.set()


class Protocol:
    """The side of granian: *read* gets the path of the file that is to be sent."""

    def __init__(self) -> None:
        self.paths: Queue[str] = Queue()
        self.answered: list[int] = []
        self.headers: dict[str, str] = {}
        self.content = b""

    def response_file(self, _status: int, _headers: object, path: str) -> None:
        self.paths.put(path)

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.answered.append(status)
        self.content = body
        self.headers = dict(headers)


def ask(body: Body, streams: StreamedAnswers, *, caller: str = "") -> Protocol:
    def application(_environ: object, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/csv")])
        return body

    protocol: Any = Protocol()
    answer(application, {"caller": caller}, protocol, streams=streams)
    return protocol  # type: ignore[no-any-return]


def read_slowly(protocol: Protocol) -> BufferedReader:
    """Open the pipe of an answer as granian does, and read nothing yet."""
    return Path(protocol.paths.get(timeout=within(10))).open("rb")


@pytest.fixture(autouse=True)
def named_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the caller from the environment instead of the database."""
    monkeypatch.setattr(answers, "caller_of", lambda environ: environ["caller"])


@pytest.fixture
def streams() -> StreamedAnswers:
    return StreamedAnswers(1)


def test_all_pieces_are_sent_and_the_pipe_is_removed(streams: StreamedAnswers) -> None:
    body = Body(50)
    path = Path(ask(body, streams).paths.get(timeout=within(10)))
    assert path.read_bytes() == 50 * PIECE
    assert body.is_closed.wait(timeout=within(10))
    assert not path.parent.exists()


def test_an_unread_answer_pauses_its_production(streams: StreamedAnswers) -> None:
    body = Body(1000)
    path = ask(body, streams).paths.get(timeout=within(10))
    with Path(path).open("rb", buffering=0) as pipe:
        pipe.read(len(PIECE))
        made = 0

        def stands_still() -> bool:
            nonlocal made
            before, made = made, body.made
            return before == made > 0

        wait_for(stands_still, 10, state=lambda: f"{body.made} pieces")
        # What the pipe holds, and the piece at which it stands.
        assert body.made <= 4
    # The client leaves.
    assert body.is_closed.wait(timeout=within(10))
    assert body.made < 1000


def test_no_more_are_sent_at_once_than_configured(streams: StreamedAnswers) -> None:
    first, second = Body(1000), Body(1)
    pipe = read_slowly(ask(first, streams))
    refused = ask(second, streams)
    assert refused.answered == [503]
    assert refused.paths.empty()
    assert second.is_closed.is_set()
    pipe.close()
    assert first.is_closed.wait(timeout=within(10))

    def is_free() -> bool:
        third = ask(Body(1), streams)
        return not third.paths.empty() and Path(third.paths.get()).read_bytes() == PIECE

    wait_for(is_free, 10, state=lambda: "refused")


def test_one_user_gets_half_of_the_streams_and_leaves_the_others_to_others() -> None:
    streams = StreamedAnswers(4)
    bodies = [Body(1000) for _ in range(2)]
    pipes = [read_slowly(ask(body, streams, caller="user 1")) for body in bodies]
    third = Body(1)
    refused = ask(third, streams, caller="user 1")
    assert (refused.answered, refused.paths.empty()) == ([429], True)
    assert int(refused.headers["Retry-After"]) > 0
    assert third.is_closed.is_set()
    of_another = ask(Body(1), streams, caller="user 2")
    assert Path(of_another.paths.get(timeout=within(10))).read_bytes() == PIECE
    # One of the user's ends, and another may begin.
    pipes.pop().close()
    assert bodies.pop().is_closed.wait(timeout=within(10))

    def is_free() -> bool:
        fourth = ask(Body(1), streams, caller="user 1")
        return not fourth.paths.empty() and Path(fourth.paths.get()).read_bytes() == PIECE

    wait_for(is_free, 10, state=lambda: "refused")
    pipes.pop().close()


def test_two_users_may_have_all_streams_and_a_third_waits() -> None:
    streams = StreamedAnswers(2)
    pipes = [read_slowly(ask(Body(1000), streams, caller=caller)) for caller in ("user 1", "user 2")]
    assert ask(Body(1), streams, caller="user 3").answered == [503]
    for pipe in pipes:
        pipe.close()


def test_a_body_that_fails_breaks_off_and_frees_its_place(
    streams: StreamedAnswers, caplog: pytest.LogCaptureFixture
) -> None:
    body = Body(2, fails=True)
    assert Path(ask(body, streams).paths.get(timeout=within(10))).read_bytes() == 2 * PIECE
    assert body.is_closed.wait(timeout=within(10))
    assert "A streamed answer broke off." in caplog.text


def test_files_of_a_page_that_were_compressed_occupy_no_stream(streams: StreamedAnswers) -> None:
    pipe = read_slowly(ask(Body(1000), streams))
    file = FileResponse(BytesIO(PIECE))
    file.streaming_content = iter([PIECE[:10], PIECE[10:]])
    protocol: Any = Protocol()

    def application(_environ: object, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Encoding", "gzip")])
        return file

    answer(application, {"caller": ""}, protocol, streams=streams)
    assert (protocol.answered, protocol.content) == ([200], PIECE)
    pipe.close()


def test_an_answer_that_is_not_streamed_is_sent_as_usual(streams: StreamedAnswers) -> None:
    protocol: Any = Protocol()

    def application(_environ: object, start_response: Any) -> Any:
        start_response("404 Not Found", [])
        return [b"no"]

    answer(application, {}, protocol, streams=streams)
    assert protocol.answered == [404]
    assert protocol.paths.empty()
