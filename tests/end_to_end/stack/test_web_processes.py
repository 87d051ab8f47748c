"""Processes of the web server that end are started again, also when one ends soon after its start."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.attacks.web import free_port, web
from tests.named_tests import ROOT
from tests.pace import wait_for, within
from wms.stack.listening import Listener

APPLICATION = """
import os, sys, time
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
if os.path.exists(os.environ["BROKEN"]):
    sys.exit(3)
"""
SERVER = """
import sys
import time
from wms.web import __main__ as main, server
main.WebServer = lambda _target, **options: server.WebServer("application:application", **options)
server._WELL_AFTER_S = 0.5
main._LOOK_AT_MEMORY_EVERY_S = 1
main.main()
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return tmp_path / "broken"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(tmp_path: Path, broken: Path, port: int) -> "Iterator[subprocess.Popen[str]]":
    (tmp_path / "application.py").write_text(APPLICATION)
    variables = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "BROKEN": str(broken), "WMS_EMBEDDED": "1"}
    command = [sys.executable, "-c", SERVER, "--port", str(port), "--workers", "2"]
    with subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.PIPE, text=True) as process:
        yield process
        with suppress(psutil.NoSuchProcess):
            for worker in workers_of(process):
                worker.kill()
            process.kill()


def workers_of(server: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(server.pid).children()


def test_a_process_that_ends_again_and_again_does_not_end_the_server(
    server: "subprocess.Popen[str]", broken: Path, port: int
) -> None:
    listener = Listener(host="127.0.0.1", port=port)
    wait_for(listener.answers, 30)
    # By this clock: the time that psutil says for the start of a process follows steps of the other one.
    well_since = time.monotonic()
    wait_for(lambda: time.monotonic() - well_since > 1, 30)
    broken.touch()
    workers_of(server)[0].kill()
    assert server.stderr
    while "started again in 1 s" not in (line := server.stderr.readline()):
        assert line
    assert listener.answers()
    broken.unlink()
    wait_for(lambda: len(workers_of(server)) == 2, 30)
    assert server.poll() is None
    server.send_signal(signal.SIGTERM)
    assert server.wait(within(30)) == 0


def test_a_start_that_fails_ends_the_server(server: "subprocess.Popen[str]", broken: Path) -> None:
    broken.touch()
    assert server.wait(within(60)) is not None


def test_a_process_that_is_stopped_is_named(server: "subprocess.Popen[str]", port: int) -> None:
    listener = Listener(host="127.0.0.1", port=port)
    wait_for(listener.answers, 30)
    workers_of(server)[0].suspend()
    assert server.stderr
    assert server.stderr.readline() == "Process 1 of the web server is stopped, by a signal or a debugger.\n"


def test_a_long_body_while_the_database_is_away_is_503(tmp_path: Path) -> None:
    """Its caller is looked for before it is read."""
    nowhere = "postgres://nobody@127.0.0.1:1/none"
    with web(tmp_path, workers=1, WMS_DATABASE_URL=nowhere, WMS_EMBEDDED="1") as server:
        status, answer = server.ask("POST", "/api/v1/jobs/", {"name": 10_000 * "x"}, token="wms_some-token-of-a-user")
    assert (status, answer["code"]) == (503, "unavailable"), answer
