"""The watchdog: its measurements and verdicts, and real payloads that use too much, or nothing."""

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.base import processes
from pilots.agent.base.processes import CPUMeter, Process, Tree
from pilots.agent.job.execution import PayloadOutcome, limits_of
from pilots.agent.job.identity import Own
from pilots.agent.job.memory_use import Memory, PayloadScope
from pilots.agent.job.payload import End
from pilots.agent.job.preparation import Program
from pilots.agent.job.watchdog import LimitVerdict, PayloadLimits, Watchdog
from pilots.agent.job.wrapper import conclusion_of
from pilots.agent.server.lease import parse_job
from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.running import marker, processes_with
from tests.agent.scripted import ScriptedServer
from tests.pace import slowness
from wms.wire.protocol import WatchdogMargins

NOBODY = 2**30


class Watched:
    """A watchdog whose clock and payload the test controls."""

    def __init__(self, directory: Path, **limits: Any) -> None:
        self.now = 100.0
        self.memory_mb = self.files_mb = 0.0
        self.disk_mb: float | None = 0.0
        streams = limits.pop("streams", ())
        self.watchdog = Watchdog(
            PayloadLimits(**limits),
            root=NOBODY,
            directory=directory,
            disk_mb=lambda _: self.disk_mb,
            memory=lambda _: Memory(self.memory_mb, self.files_mb),
            streams=streams,
            look_every_s=10,
            clock=lambda: self.now,
        )

    def check_pilots(self, seconds: float, *, cpu_s: float | None = None) -> LimitVerdict | None:
        self.now += seconds
        self.watchdog.close(cpu_s=cpu_s, max_memory_mb=None)
        return self.watchdog.look()


def test_usage_never_decreases_and_verdicts_name_the_limit(tmp_path: Path) -> None:
    watched = Watched(tmp_path, cpu_s=10, wall_s=60)
    assert watched.watchdog.look() is None

    watched.watchdog.close(cpu_s=5, max_memory_mb=300)
    assert watched.check_pilots(30) is None
    usage = watched.watchdog.usage
    assert (usage.cpu_s, usage.memory_mb, usage.wall_s) == (5, 300, 30)

    assert watched.check_pilots(0, cpu_s=10.01) == LimitVerdict("CPU time limit exceeded: 10.1 s of 10 s")
    assert watched.watchdog.usage.memory_mb == 300


@pytest.mark.parametrize(
    ("limits", "memory_mb", "disk_mb", "sentence"),
    [
        ({"asked_wall_s": 45}, 0, 0, "Wall-clock limit exceeded: 50 s of 45 s"),
        ({"wall_s": 45.5}, 0, 0, "Wall clock limit of the slot exceeded: 50 s of 45.5 s"),
        ({"memory_mb": 1100}, 1100.2, 0, "Memory limit exceeded: 1100.2 MB of 1100 MB"),
        ({"disk_mb": 2000}, 0, 2001, "Disk limit exceeded: 2001 MB of 2000 MB"),
    ],
)
def test_each_exceeded_limit_has_its_own_message(
    tmp_path: Path, limits: dict[str, float], memory_mb: float, disk_mb: float, sentence: str
) -> None:
    watched = Watched(tmp_path, **limits)
    watched.memory_mb, watched.disk_mb = memory_mb, disk_mb

    assert watched.check_pilots(50) == LimitVerdict(sentence)


def test_the_part_of_files_in_memory_is_that_of_the_highest_use(tmp_path: Path) -> None:
    watched = Watched(tmp_path, memory_mb=220, warning_fraction=0.9)
    watched.memory_mb, watched.files_mb = 210, 150
    assert watched.check_pilots(1) is None
    watched.memory_mb, watched.files_mb = 100, 20
    watched.check_pilots(1)
    part = ", 150 MB of it files in memory (/dev/shm)"
    assert watched.watchdog.warnings() == [f"Near the memory limit: 210 MB of 220 MB{part}"]

    watched.memory_mb, watched.files_mb = 230, 160
    exceeded = LimitVerdict("Memory limit exceeded: 230 MB of 220 MB, 160 MB of it files in memory (/dev/shm)")
    assert watched.check_pilots(1) == exceeded


def test_a_warning_is_given_once_with_the_measured_figures(tmp_path: Path) -> None:
    watched = Watched(tmp_path, memory_mb=1000, disk_mb=100, warning_fraction=0.9)
    watched.check_pilots(1)
    assert watched.watchdog.warnings() == []

    watched.memory_mb, watched.disk_mb = 950, None
    watched.check_pilots(1)
    assert watched.watchdog.warnings() == ["Near the memory limit: 950 MB of 1000 MB"]
    watched.memory_mb = 960
    watched.check_pilots(1)
    assert watched.watchdog.warnings() == []


def test_a_full_disk_is_the_fault_of_the_node_if_the_job_is_within_its_limit(tmp_path: Path) -> None:
    kept_its_word = Watched(tmp_path, min_free_disk_mb=2.0**50, disk_mb=10)
    verdict = kept_its_word.check_pilots(1)
    assert verdict is not None
    assert verdict.elsewhere
    assert verdict.sentence.startswith("The disk of the node is full: ")

    said_nothing = Watched(tmp_path, min_free_disk_mb=2.0**50).check_pilots(1)
    assert said_nothing is not None
    assert not said_nothing.elsewhere


def test_a_full_disk_hands_the_job_back_unless_it_exceeded_its_disk_limit() -> None:
    program = Program(Path("/bin/true"), ["true"], {}, Path("/"))
    full = conclusion_of(
        PayloadOutcome(End(exit_code=143), verdict=LimitVerdict("The disk of the node is full", elsewhere=True)),
        program,
    )
    assert (full.exit_code, full.minor) == (222, "The disk of the node is full")

    # A verdict wins over whatever the payload ended with.
    too_far = conclusion_of(PayloadOutcome(End(exit_code=0), verdict=LimitVerdict("Disk limit exceeded")), program)
    assert (too_far.exit_code, too_far.minor) == (None, "Disk limit exceeded")


def test_a_stalled_payload_is_distinguished_from_a_slow_one(tmp_path: Path) -> None:
    limits = {"stalled_s": 100, "stalled_cpu_fraction": 0.05, "warning_fraction": 0.9}
    slow, stalled = Watched(tmp_path, **limits), Watched(tmp_path, **limits)
    cpu_s, warned = 0.0, []
    for _ in range(30):
        cpu_s += 0.6
        assert slow.check_pilots(10, cpu_s=cpu_s) is None
        assert slow.watchdog.warnings() == []
    for look in range(1, 11):
        verdict = stalled.check_pilots(10, cpu_s=4.5)
        warned += [(look, sentence) for sentence in stalled.watchdog.warnings()]

    # At half of the window, of the last 50 s. The CPU time of the first 10 s counts in neither sum.
    assert [look for look, _ in warned] == [6]
    assert warned[0][1] == (
        "Nearly stalled: 0 s of CPU time in 50 s, at least 2.5 s are expected; it is stopped after 100 s of this"
    )
    assert verdict == LimitVerdict("Stalled: 4.5 s of CPU time in 100 s, at least 5 s are expected")


def test_a_payload_that_works_again_is_warned_again_the_next_time(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stalled_s=100, stalled_cpu_fraction=0.05)
    said = []
    for look in range(1, 24):
        # It works for the time of the eighth to the tenth look.
        assert watched.check_pilots(10, cpu_s=10.0 * min(max(0, look - 7), 3)) is None or look > 19
        said += [(look, sentence.partition(":")[0]) for sentence in watched.watchdog.warnings()]
    assert said[:3] == [(5, "Nearly stalled"), (8, "No longer nearly stalled"), (15, "Nearly stalled")]


@pytest.mark.parametrize(
    ("asked", "margins", "expected_s"),
    [
        ({}, {"stalled_s": 600}, 600),
        ({}, {"stalled_s": 0}, math.inf),
        ({"stalled_s": 90}, {"stalled_s": 600}, 90),
        ({"stalled_s": 7200}, {"stalled_s": 600}, 7200),
        ({"stalled_s": 7200}, {"stalled_s": 600, "max_stalled_s": 3600}, 3600),
        ({"stalled_s": 0}, {"stalled_s": 600, "max_stalled_s": 3600}, 3600),
        ({"stalled_s": 0}, {"stalled_s": 600, "max_stalled_s": 0}, math.inf),
        ({"stalled_s": 7200}, {"stalled_s": 600, "max_stalled_s": 0}, 7200),
        # What the place says itself is never too long, and who stops nothing bounds nothing.
        ({"stalled_s": 7200}, {"stalled_s": 5000, "max_stalled_s": 3600}, 5000),
        ({"stalled_s": 7200}, {"stalled_s": 0, "max_stalled_s": 3600}, 7200),
    ],
)
def test_the_stall_window_of_a_job_is_bounded_by_its_queue(
    asked: dict[str, int], margins: dict[str, float], expected_s: float
) -> None:
    job = parse_job({"id": 1, "executable": "x", **asked})
    assert limits_of(job, WatchdogMargins(**margins), wall_left_s=1, speed=1.0).stalled_s == expected_s


def test_a_payload_that_was_suspended_with_the_pilot_is_not_stalled(tmp_path: Path) -> None:
    watched = Watched(tmp_path, stalled_s=100, stalled_cpu_fraction=0.05)
    for _ in range(9):
        assert watched.check_pilots(10) is None

    assert watched.check_pilots(5000) is None
    assert watched.check_pilots(10) is None


def test_limits_are_the_requirements_plus_the_margins_of_the_server() -> None:
    margins = WatchdogMargins(cpu_factor=1.1, memory_factor=1.2, stalled_s=50, stream_max_mb=7)
    asked = parse_job(
        {"id": 1, "executable": "x", "cpu_time_s": 1000, "processors": 4, "memory_mb": 500, "disk_mb": 60}
        | {"wall_time_s": 90}
    )
    limits = limits_of(asked, margins, wall_left_s=70, speed=0.5)
    assert limits.cpu_s == pytest.approx(8800)
    assert (limits.wall_s, limits.asked_wall_s) == (70, 90)
    assert (limits.memory_mb, limits.disk_mb, limits.stream_mb, limits.stalled_s) == (600, 60, 7, 50)

    silent = parse_job({"id": 1, "executable": "x"})
    limits = limits_of(silent, WatchdogMargins(stream_max_mb=0), wall_left_s=1, speed=1.0)
    assert limits.memory_mb == limits.disk_mb == limits.asked_wall_s == limits.stream_mb == math.inf


# ---- measuring


def test_cpu_time_of_unreaped_children_is_counted() -> None:
    meter = CPUMeter()
    child = Process(8, 7, 30.0, 0.0, 1.0, started=5)
    assert meter.add(Tree([Process(7, 1, 1.0, 0.0, 1.0), child], cpu_s=31, memory_mb=2)) == 31
    # Its parent ignores SIGCHLD; its process id goes to another one.
    assert meter.add(Tree([Process(7, 1, 2.0, 0.0, 1.0)], cpu_s=2, memory_mb=1)) == 32
    again = Process(8, 7, 4.0, 0.0, 1.0, started=9)
    assert meter.add(Tree([Process(7, 1, 2.0, 0.0, 1.0), again], cpu_s=6, memory_mb=2)) == 36


@contextmanager
def _family(script: str) -> Iterator[int]:
    """Yield the process id of a Python program that has reported that it is ready."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout is not None
        assert program.stdout.read(1) == b"x"
        try:
            yield program.pid
        finally:
            os.killpg(program.pid, signal.SIGKILL)


def test_memory_that_forked_processes_share_counts_once() -> None:
    script = (
        "import os, time\nkept = b'1' * 60_000_000\n"
        "for _ in range(4):\n    if not os.fork(): time.sleep(1000)\n"
        "print('x', end='', flush=True)\ntime.sleep(1000)"
    )
    with _family(script) as pid:
        everyone = [each for each in processes.snapshot().values() if pid in {each.pid, each.parent}]
        resident_mb = sum(each.memory_mb for each in everyone)
        used_mb = Own({}).memory(everyone, PayloadScope(), limit_mb=math.inf).total_mb

    assert len(everyone) == 5
    assert resident_mb > 300
    assert 60 < used_mb < 150


# ---- real payloads

MEMORY = "import time; kept = b'1' * {mb}_000_000; print('kept', flush=True); time.sleep(1000)"


def _python(script: str) -> str:
    return f"-c {shlex.quote(script)}"


def _minor(server: ScriptedServer) -> str:
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    minor: str = server.lease.finished["minor_status"]
    return minor


def test_a_payload_over_its_memory_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"]["memory_factor"] = 1.1
    server.add_job(PYTHON, _python(MEMORY.format(mb=200)), memory_mb=100)

    assert start().wait() == 0

    assert _minor(server).startswith("Memory limit exceeded: ")
    assert _minor(server).endswith(" MB of 110 MB")
    assert server.lease.finished is not None
    assert server.lease.finished["usage"]["memory_mb"] > 110
    assert "std.out" in server.lease.files()


def test_memory_of_children_counts_without_shared_pages(server: ScriptedServer, start: StartAgent) -> None:
    forks = "import os, time; kept = b'1' * 60_000_000; p = [os.fork() for _ in 'ab']; time.sleep(2)"
    server.add_job(PYTHON, _python(forks), memory_mb=150)
    each = f"import subprocess, sys; [subprocess.Popen([sys.executable, '-c', {MEMORY.format(mb=60)!r}]) for _ in 'ab']"
    server.add_job(PYTHON, _python(f"{each}; import time; time.sleep(1000)"), memory_mb=100)

    assert start().wait() == 0

    sharing, separate = server.leases
    assert sharing.finished is not None
    assert sharing.finished["exit_code"] == 0
    assert separate.finished is not None
    assert separate.finished["minor_status"].startswith("Memory limit exceeded: ")


def test_a_payload_over_its_disk_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'head -c 20000000 /dev/urandom > big; sleep 1000'", disk_mb=10)

    assert start().wait() == 0

    assert _minor(server).startswith("Disk limit exceeded: ")
    assert _minor(server).endswith(" MB of 10 MB")


def test_a_payload_with_too_many_processes_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"]["processes_per_core"] = 20
    forks = "i=0; while [ $i -lt 15 ]; do sleep 1000 & i=$((i+1)); done"
    server.add_job("/bin/sh", f"-c '{forks}; sleep 1'")
    server.add_job("/bin/sh", f"-c '{forks}; {forks}; wait'")
    server.add_job("/bin/sh", f"-c '{forks}; {forks}; sleep 1'", processors=2)

    assert start("--processors", "2").wait() == 0

    within, beyond, of_two = server.leases
    assert within.finished is not None
    assert within.finished["exit_code"] == 0
    assert beyond.finished is not None
    assert re.fullmatch(r"Process limit exceeded: \d+ processes of 20 processes", beyond.finished["minor_status"])
    assert of_two.finished is not None
    assert of_two.finished["exit_code"] == 0


def test_a_payload_without_disk_requirement_may_use_the_default_disk(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"]["unasked_disk_mb"] = 10
    sandbox = server.add_sandbox(os.urandom(20_000_000), file_name="input")
    server.add_job("/bin/sh", "-c 'head -c 5000000 input > part; sleep 1'", input_sandboxes=[sandbox])
    server.add_job("/bin/sh", "-c 'head -c 20000000 /dev/urandom > big; sleep 1000'")

    assert start().wait() == 0

    within, beyond = server.leases
    assert within.finished is not None
    assert within.finished["exit_code"] == 0
    assert beyond.finished is not None
    assert beyond.finished["minor_status"].startswith("Disk limit of a job without a disk requirement exceeded: ")
    assert " MB of 10" in beyond.finished["minor_status"]


def test_a_payload_that_writes_without_end_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"]["stream_max_mb"] = 1
    server.add_job("/bin/sh", "-c 'yes >&2'")

    assert start("--grace-s", "0.5").wait() == 0

    assert _minor(server).startswith("Limit of standard error exceeded: ")
    # On a slow machine it has written more than a sandbox may hold, which is said too.
    assert " MB of 1 MB" in _minor(server)
    assert set(server.lease.files()) == {"std.err", "std.out"}
    told = [beat["std_error"] for beat in server.lease.heartbeats if "std_error" in beat]
    assert told[-1].splitlines() == ["y"] * 20


def test_a_stalled_payload_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    # A look that comes late, as from a suspended machine, begins to measure anew.
    server.configuration["heartbeat_s"] = 0.2 * slowness()
    server.configuration["watchdog"] |= {"stalled_s": 1, "stalled_cpu_fraction": 0.05}
    server.add_job("/bin/sh", f"-c 'trap \"\" TERM; sleep {mark}; sleep {mark}'")

    assert start("--grace-s", "0.3").wait() == 0

    assert _minor(server).startswith("Stalled: 0")
    assert processes_with(mark) == []


def test_a_job_may_wait_longer_and_its_owner_is_warned_before_it_is_stopped(
    server: ScriptedServer, start: StartAgent
) -> None:
    server.configuration["watchdog"] |= {"stalled_s": 600, "stalled_cpu_fraction": 0.05, "max_stalled_s": 3600}
    server.add_job("sleep", "987654", stalled_s=3, stalled_cpu_fraction=0.5)

    agent = start("--grace-s", "0.3")
    assert agent.wait() == 0

    told = [seen.body["minor_status"] for seen in server.requests_to("/status/") if "minor_status" in seen.body]
    assert told[0].startswith("Nearly stalled: 0")
    assert told[0].endswith("; it is stopped after 3 s of this")
    assert "payload.warned" in agent.log
    assert "stalled_after_s=3" in agent.log
    assert _minor(server).startswith("Stalled: 0")


def test_a_payload_over_its_own_wall_clock_time_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "1000", wall_time_s=1)

    assert start().wait() == 0

    assert _minor(server).startswith("Wall-clock limit exceeded: 1")


def test_cpu_time_of_children_that_detach_counts(server: ScriptedServer, start: StartAgent) -> None:
    burn = f"setsid {PYTHON} -c 'while True: pass' & exec sleep 1000"
    server.add_job("/bin/sh", f"-c {shlex.quote(burn)}", cpu_time_s=1)

    assert start().wait() == 0

    assert _minor(server).startswith("CPU time limit exceeded: ")


def test_cpu_time_of_short_lived_unreaped_children_counts(server: ScriptedServer, start: StartAgent) -> None:
    burn = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n    if not os.fork():\n"
        "        while time.process_time() < 0.5: pass\n        os._exit(0)\n    time.sleep(0.6)\n"
    )
    server.add_job(PYTHON, _python(burn), cpu_time_s=1)

    assert start().wait() == 0

    assert _minor(server).startswith("CPU time limit exceeded: ")


def test_the_owner_is_warned_before_a_limit(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"]["memory_factor"] = 1.0
    server.add_job(PYTHON, _python(MEMORY.format(mb=190)), memory_mb=205)
    agent = start()

    server.wait_until(lambda: any("minor_status" in seen.body for seen in server.requests_to("/status/")))
    told = [seen.body for seen in server.requests_to("/status/")][-1]

    assert told["status"] == "Running"
    assert told["minor_status"].startswith("Near the memory limit: ")
    assert told["minor_status"].endswith(" MB of 205 MB")
    assert "payload.warned" in agent.log
    agent.stop()
    assert agent.wait() == 0


def test_resource_limits_are_set_for_payload_processes(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'ulimit -c; ulimit -t; ulimit -n'", cpu_time_s=1000)

    assert start().wait() == 0

    core, cpu_s, files = server.lease.files()["std.out"].split()
    assert (core, cpu_s) == ("0", "1060")
    assert (
        files
        == subprocess.run(["/bin/sh", "-c", "ulimit -n"], capture_output=True, text=True, check=True).stdout.strip()
    )


def test_a_suspended_pilot_does_not_count_its_payload_as_stalled(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["watchdog"] |= {"stalled_s": 2, "stalled_cpu_fraction": 0.05}
    burn = "import time; time.sleep(1); t = time.monotonic()\nwhile time.monotonic() - t < 1.5: pass"
    server.add_job(PYTHON, _python(burn))
    agent = start()
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    agent.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    agent.process.send_signal(signal.SIGCONT)

    assert agent.wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
