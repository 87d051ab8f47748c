"""`manage.py demo`, as a process: real jobs on real pilots, its verdict, and nothing left behind."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.stack.running import (
    PROJECT,
    READY_WITHIN_S,
    environment,
    free_port,
    manage,
    processes_of,
    refused,
)
from tests.pace import wait_for, within

#: The demonstration's own limit, and what starting and stopping may take on a busy machine.
ENDED_WITHIN_S = 300.0
#: `demo` that waits for no change of a job.
IMPATIENT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from wms.demo import running
running.STANDSTILL_S = 0.0
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one data directory for all tests of this file, so that each starts with the files of those before it."""
    return tmp_path_factory.mktemp("demo") / "data"


def options(directory: Path, *more: str) -> list[str]:
    return ["demo", "--port", str(free_port()), "--data-dir", str(directory), *more]


def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=within(ENDED_WITHIN_S), check=False
    )


def test_jobs_that_do_not_end_as_they_should_are_named(directory: Path) -> None:
    done = run([sys.executable, "-c", IMPATIENT, str(PROJECT), *options(directory, "--exit")])

    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    verdict = re.search(
        r"Not every one of the 68 jobs .* \((\d+) are still open: no job changed for 0 s\):", done.stderr
    )
    assert verdict
    # Some may have ended while the others were being submitted; every one that has not is named, or counted.
    named = re.findall(r"^  Job \d+ \(\S+\) .+\.$", done.stderr, re.MULTILINE)
    further = re.search(r"^  … and (\d+) more\.$", done.stderr, re.MULTILINE)
    assert len(named) + int(further[1] if further else 0) >= int(verdict[1]) > 0
    assert re.search(r"Job \d+ \(\S+\) is \w+, not Done\.", done.stderr)
    assert processes_of(directory) == []


def test_sigkill_leaves_no_process_not_even_of_pilots_and_payloads(directory: Path) -> None:
    log = directory.with_name("killed.log")
    with log.open("wb") as output:
        demo = subprocess.Popen(manage(*options(directory)), env=environment(), stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: " pilots, " in log.read_text() or demo.poll() is not None, READY_WITHIN_S)
    finally:
        demo.kill()
        demo.wait()

    assert " pilots, " in log.read_text()
    wait_for(lambda: processes_of(directory) == [], 10)


def test_demo_jobs_end_as_expected_beside_jobs_of_earlier_runs(directory: Path) -> None:
    done = run(manage(*options(directory, "--exit")))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 68 jobs ended as they should." in done.stdout
    assert processes_of(directory) == []


def test_demo_runs_until_ctrl_c_even_after_failures(directory: Path) -> None:
    log = directory.with_name("stayed.log")
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "-c", IMPATIENT, str(PROJECT), *options(directory)],
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: "Ctrl-C stops it." in log.read_text() or demo.poll() is not None, READY_WITHIN_S)
        assert demo.poll() is None, log.read_text()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=within(30)) == 0, log.read_text()
    finally:
        demo.kill()
        demo.wait()

    assert "Not every one of the 68 jobs ended as it should" in log.read_text()
    assert processes_of(directory) == []


def test_an_occupied_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        sentence = refused(manage("demo", "--exit", "--port", str(port), "--data-dir", str(tmp_path / "data")))

    assert sentence.startswith(f"CommandError: Port {port} of 127.0.0.1 cannot be used (Address already in use)")
    assert processes_of(tmp_path) == []


def test_a_data_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    sentence = refused(manage(*options(tmp_path / "file" / "data", "--exit")))

    assert "cannot be used (Not a directory): name another one with --data-dir." in sentence


def test_demo_refuses_a_database_with_other_data(tmp_path: Path) -> None:
    done = subprocess.run(
        manage(*options(tmp_path / "data", "--exit")),
        env={**environment(), "WMS_DATABASE_URL": "postgres://db.example.org/wms"},
        capture_output=True,
        text=True,
        timeout=within(READY_WITHIN_S),
        check=False,
    )

    assert done.returncode == 1
    assert "unset WMS_DATABASE_URL" in done.stderr
    assert not (tmp_path / "data").exists()
