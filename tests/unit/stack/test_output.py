"""The log lines of all services, and the status block below them on a terminal."""

import io
import json
import sys

import pytest
from pytest_django import Settings

from wms.stack.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, columns: int = 80, term: str = "xterm") -> Output:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", term)
    return Output()


def test_a_block_stays_below_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    output = written(monkeypatch, stream)

    output.block(["first", "second"])
    output.line("web", "hello")
    output.block(["third"])
    output.block([])
    output.text("end")

    assert stream.getvalue() == (
        "first\nsecond\n"
        "\x1b[2F\x1b[Jweb      | hello\nfirst\nsecond\n"
        "\x1b[2F\x1b[Jthird\n"
        "\x1b[1F\x1b[J"
        "end\n"
    )  # fmt: skip


def test_lines_of_a_block_are_cut_where_the_terminal_would_fold_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    output = written(monkeypatch, stream, columns=30)

    output.block(["x" * 100])

    assert stream.getvalue() == "x" * 29 + "\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_without_a_terminal_there_is_no_progress_block(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    output = written(monkeypatch, stream, term="dumb")

    output.block(["first"])
    output.line("web", "hello")

    assert stream.getvalue() == "web      | hello\n"


def test_characters_outside_the_encoding_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)

    Output().line("demo", "π is about 3 ± 1")

    stream.seek(0)
    assert stream.read() == "demo     | ? is about 3 ± 1\n"


def test_as_json_each_line_is_a_record_with_its_part(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    stream = io.StringIO()
    output = written(monkeypatch, stream)
    settings.WMS_LOG_FORMAT = "json"

    output.line("web", '{"level":"INFO","event":"job.matched","job":7}')
    output.line("postgres", 'FATAL:  the database system is "starting up"')
    output.greet("The system is up at\nhttp://localhost:8000/")

    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert first == {"part": "web", "level": "INFO", "event": "job.matched", "job": 7}
    assert (second["part"], second["event"]) == ("postgres", 'FATAL:  the database system is "starting up"')
    assert (third["part"], third["event"]) == ("up", "The system is up at\nhttp://localhost:8000/")
