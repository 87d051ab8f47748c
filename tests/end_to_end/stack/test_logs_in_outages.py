"""The log of the whole system while a server is away: small, no traceback, and an error only of what lasts."""

import http.client
import json
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.stack.running import free_port, manage, running_up
from tests.pace import wait_for, within

#: As often as a load balancer does.
PROBES = 10
MOST_BYTES_A_MINUTE = 50_000


@pytest.mark.parametrize(("part", "program"), [("broker", "valkey-server"), ("database", "postgres")])
def test_an_outage_is_a_line_a_minute_of_each_process(tmp_path: Path, part: str, program: str) -> None:
    log, port = tmp_path / "log", free_port()
    up = ["env", "WMS_LOG_FORMAT=json", *manage("up", "--port", str(port), "--data", str(tmp_path / "data"))]
    with running_up(up, log) as supervisor:
        wait_for(lambda: answer_of(port) == 200, 240)
        begun, size = time.monotonic(), log.stat().st_size
        answers = 0
        while answers < PROBES:
            kill(program, below=supervisor)
            answers += answer_of(port) == 503
        wait_for(lambda: answer_of(port) == 200, 240)
        minutes = 1 + (time.monotonic() - begun) // 60
        written = log.read_bytes()[size:]

    assert len(written) < MOST_BYTES_A_MINUTE * minutes
    records = [json.loads(line) for line in written.splitlines()]
    assert any(record["event"].startswith(f"outage.{part}: ") for record in records)
    assert [record for record in records if "error" in record] == []
    # One is only right where this machine took more than a minute.
    errors = [record for record in records if record["level"] == "ERROR"]
    assert all(record["event"].startswith("outage.") and minutes > 1 for record in errors)


def kill(program: str, *, below: psutil.Process) -> None:
    """End the processes of a server, which the supervisor starts again."""
    for process in below.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.name() == program:
                process.kill()


def answer_of(port: int) -> int:
    """Return the status of an answer of /readyz."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within(60))
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()
