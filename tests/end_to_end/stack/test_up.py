"""`manage.py up`, as a process: it answers, stops on a signal, and leaves nothing behind."""

import http.client
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import psutil
import psycopg
import pytest

from tests.end_to_end.stack.running import (
    READY_WITHIN_S,
    environment,
    environment_of,
    free_port,
    imported_from,
    make_trap,
    manage,
    processes_of,
    refused,
)
from tests.pace import Deadline, wait_for, within


class Up:
    """One `up` with its own port."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        port: int,
        current: Path | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.port = port
        self._log = directory.parent / "up.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command(directory, *arguments, port=port),
                cwd=current,
                env={**environment(), **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        wait_for(lambda: "The system is up at" in self.output or self.process.poll() is not None, READY_WITHIN_S)
        assert self.process.poll() is None, self.output

    def status_of(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(10))
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()


def command(directory: Path, *arguments: str, port: int) -> list[str]:
    shared = ["--port", str(port), "--data-dir", str(directory), "--web-workers", "1"]
    return manage("up", *shared, *arguments)


def refused_up(directory: Path, *arguments: str, port: int) -> str:
    """Run an `up` that must fail, and return its last line."""
    return refused(command(directory, *arguments, port=port))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one data directory for all tests of this file, so that all but the first are second starts."""
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture
def up(directory: Path, port: int) -> Iterator[Up]:
    up = Up(directory, port=port)
    yield up
    if up.process.poll() is None:
        up.process.kill()
        up.process.wait()


def test_up_answers_locks_its_directory_survives_sigkill_and_stops_cleanly(
    directory: Path, tmp_path: Path, port: int
) -> None:
    trap = make_trap(tmp_path / "trap")
    first = Up(directory, port=port, current=trap)
    try:
        first.wait_until_ready()
        assert first.status_of("/healthz") == 200
        assert "Next, in a second terminal: `uv run manage.py configure FILE`" in first.output
        assert re.search(rf"is in use by process {first.process.pid}\b", refused_up(directory, port=port))
        assert f"Port {port} of 127.0.0.1 cannot be used" in refused_up(directory.with_name("other"), port=port)
        assert first.status_of("/healthz") == 200
        key = (directory / "secret_key").read_text()
        parts = psutil.Process(first.process.pid).children(recursive=True)
        assert len(parts) > len(PARTS)
    finally:
        first.process.kill()
        first.process.wait()

    second = Up(directory, port=port)
    try:
        second.wait_until_ready()
        assert second.status_of("/healthz") == 200
        wait_for(lambda: not any(part.is_running() for part in parts), 10)
        deadline = Deadline(10)
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(timeout=within(30)) == 0
        assert not deadline.has_passed()
    finally:
        second.process.kill()
        second.process.wait()
    assert processes_of(directory.parent) == []
    assert not (directory / "environment").exists()
    assert (directory / "secret_key").read_text() == key
    assert imported_from(trap) == ""


def test_up_listens_on_a_socket_for_a_proxy(directory: Path, port: int) -> None:
    path = directory.parent / "web.socket"
    behind = {"WMS_SERVER_URL": "https://wms.example.org", "WMS_HTTPS": "true", "WMS_TRUSTED_PROXIES": "unix"}
    up = Up(directory, "--listen", f"unix:{path}", port=port, variables=behind)
    try:
        up.wait_until_ready()
        assert "The system is up at https://wms.example.org/ " in up.output
        assert "administration: https://wms.example.org/admin/)" in up.output
        assert path.stat().st_mode & 0o777 == 0o660
        assert (status_at(path, "https"), status_at(path, "http")) == (200, 301)
    finally:
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(timeout=within(30)) == 0


def status_at(path: Path, scheme: str) -> int:
    """Return the status of a page that a proxy requests at a socket."""
    connection = http.client.HTTPConnection("localhost", timeout=within(10))
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.connect(str(path))
    try:
        connection.request("GET", "/accounts/login/", headers={"X-Forwarded-Proto": scheme})
        return connection.getresponse().status
    finally:
        connection.close()


def test_parts_that_hang_are_replaced_and_operators_are_told(directory: Path, tmp_path: Path, port: int) -> None:
    alarms = tmp_path / "alarms"
    alarm = f"""sh -c 'printf "%s\\n" "$1" >> {alarms}' alarm"""
    up = Up(directory, port=port, variables={"WMS_ALARM_COMMAND": alarm})
    try:
        up.wait_until_ready()
        wait_for(lambda: both_workers_have_reported(directory), 120, state=lambda: up.output)
        before = {part: process for part, words in PARTS.items() if (process := process_of(up, *words))}
        assert before.keys() == PARTS.keys()
        for process in before.values():
            process.suspend()
        wait_for(lambda: not any(process.is_running() for process in before.values()), 300, state=lambda: up.output)
        wait_for(lambda: all(process_of(up, *words) for words in PARTS.values()), 60, state=lambda: up.output)
        wait_for(lambda: up.status_of("/readyz") == 200, 120, state=lambda: up.output)
        for part, process in before.items():
            assert f"{part} process {process.pid} hangs: it has sent no pulse for 60 s" in alarms.read_text()
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(timeout=within(60)) == 0
    finally:
        up.process.kill()
        up.process.wait()


#: {part: words of the command line of its process}; of the web server, one that answers.
PARTS = {"web": ("wms.web",), "control": ("control",), "sites": ("sites",), "beat": ("beat",)}


def both_workers_have_reported(directory: Path) -> bool:
    """Return whether beat and both workers run, since this start."""
    since_start = "SELECT count(*) FROM kernel_liveness WHERE reported_at > pg_postmaster_start_time()"
    with psycopg.connect(environment_of(directory)["WMS_DATABASE_URL"]) as connection:
        return connection.execute(since_start).fetchall() == [(2,)]


def process_of(up: Up, *words: str) -> psutil.Process | None:
    """Return the running process of a part; of the web server, the one that answers."""
    for part in psutil.Process(up.process.pid).children():
        with suppress(psutil.Error):
            if set(words) <= set(part.cmdline()):
                return next(iter(part.children()), None) if "wms.web" in words else part
    return None


def test_an_interrupt_while_starting_leaves_nothing(up: Up, directory: Path) -> None:
    wait_for((directory / "environment").exists, READY_WITHIN_S)

    up.process.send_signal(signal.SIGTERM)

    assert up.process.wait(timeout=within(30)) == 0, up.output
    assert processes_of(directory.parent) == []


def test_an_unusable_data_directory_is_one_sentence(tmp_path: Path, port: int) -> None:
    (tmp_path / "file").touch()

    sentence = refused_up(tmp_path / "file" / "data", port=port)

    assert "cannot be used (Not a directory): name another one with --data-dir." in sentence


def test_a_missing_configuration_file_is_one_sentence(tmp_path: Path, port: int) -> None:
    sentence = refused_up(tmp_path / "data", "--config", str(tmp_path / "missing.yaml"), port=port)

    assert (
        sentence
        == f"CommandError: The configuration file {tmp_path}/missing.yaml cannot be read: No such file or directory."
    )
    assert not (tmp_path / "data").exists()


def test_a_configuration_file_that_is_not_valid_is_refused_before_anything_is_made(tmp_path: Path, port: int) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("vos: [{name: lhcb, setpu: LHCb-Production}]")

    done = subprocess.run(
        command(tmp_path / "data", "--config", str(file), port=port),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=within(READY_WITHIN_S),
        check=False,
    )

    assert done.returncode == 1
    assert f"CommandError: {file} is not accepted; nothing was changed. 2 problems:\nline 1: vos[0]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_configuration_file_that_contradicts_the_database_is_refused(
    directory: Path, tmp_path: Path, port: int
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("groups: [{name: lhcb_user, vo: lhcb, priority: 1}]")

    sentence = refused_up(directory, "--config", str(file), port=port)

    assert sentence == f"CommandError: The configuration file {file} could not be applied, for the reason above."
    assert processes_of(directory) == []
