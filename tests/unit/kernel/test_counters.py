"""Counters that processes share by files: two real processes, one after another and at a time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from wms.kernel import counters

#: Counts for each line of its input, and says so.
PROGRAM = """
import sys
from wms.kernel.counters import MATCHES, MATCH_SECONDS
for line in sys.stdin:
    MATCHES.inc(int(line))
    MATCH_SECONDS.observe(0.3)
    print("counted", flush=True)
"""

Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start() -> "subprocess.Popen[str]":
        environment = {**os.environ, counters.DIRECTORY: str(tmp_path)}
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environment)

    return start


def count(process: "subprocess.Popen[str]", number: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    print(number, file=process.stdin, flush=True)
    assert process.stdout.readline() == "counted\n"


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def value(directory: Path, sample: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(directory))  # type: ignore[no-untyped-call]
    return registry.get_sample_value(sample, labels)


def test_processes_at_a_time_are_added_up(start: Start, tmp_path: Path) -> None:
    one, other = start(), start()
    count(one, 2)
    count(other, 3)
    assert value(tmp_path, "wms_matches_total") == 5
    assert value(tmp_path, "wms_match_seconds_bucket", le="0.5") == 2
    assert value(tmp_path, "wms_match_seconds_bucket", le="0.2") == 0
    end(one)
    end(other)


def test_a_process_goes_on_with_the_files_of_one_that_was_killed(start: Start, tmp_path: Path) -> None:
    first = start()
    count(first, 2)
    files = sorted(tmp_path.iterdir())
    end(first)
    second = start()
    count(second, 3)
    assert value(tmp_path, "wms_matches_total") == 5
    assert sorted(tmp_path.iterdir()) == files
    end(second)


def test_the_files_are_private_and_have_their_room_on_the_disk(start: Start, tmp_path: Path) -> None:
    process = start()
    count(process, 1)
    for file in tmp_path.glob("*.db"):
        state = file.stat()
        assert state.st_mode & 0o077 == 0
        assert state.st_blocks * 512 >= state.st_size == counters._FILE_BYTES
    end(process)


def test_a_process_without_room_for_files_counts_for_itself(tmp_path: Path) -> None:
    environment = {**os.environ, counters.DIRECTORY: str(tmp_path / "missing")}
    program = "from wms.kernel.counters import MATCHES; MATCHES.inc(); print(MATCHES._value.get())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "1.0\n"
    assert "counters.not_shared" in done.stderr
