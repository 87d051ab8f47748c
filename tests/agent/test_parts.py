"""Small parts of the agent: waiting, measuring, node snapshots, clocks of leases, the log."""

import errno
import math
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise, repeat
from pathlib import Path

import pytest

from pilots.agent.base import log as agent_log
from pilots.agent.base import processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.job import heartbeat, user_helper
from pilots.agent.job.execution import PayloadOutcome
from pilots.agent.job.payload import End
from pilots.agent.job.preparation import Program
from pilots.agent.job.user_helper import disk_usage_mb, remove_tree
from pilots.agent.job.wrapper import conclusion_of
from pilots.agent.node import batch_system, cgroups, inspection
from pilots.agent.pilot.offer import Resources
from pilots.agent.server import json_fields, lease, retry
from pilots.agent.server.configuration import PilotConfiguration, parse
from pilots.agent.server.http import UnreachableError
from pilots.agent.server.job_data import JobData
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import ENDED, EXPIRING, KILLED, Lease, Renewal
from pilots.agent.server.retry import Retry
from wms.wire.backoff import Backoff

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


# ---- waiting


def test_delays_double_up_to_the_limit_and_spread() -> None:
    backoff = Backoff(first_s=1, limit_s=60, chance=random.Random(5))
    delays = [backoff.next_s() for _ in range(10)]

    for delay_s, least_s in zip(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60], strict=True):
        assert least_s <= delay_s < 1.5 * least_s
    assert len(set(delays)) == 10


def test_the_delay_requested_by_the_server_is_never_shortened() -> None:
    backoff = Backoff(first_s=1, limit_s=5)

    assert all(backoff.next_s(at_least_s=30) >= 30 for _ in range(5))


def test_after_a_success_the_delays_begin_again() -> None:
    backoff = Backoff(first_s=1, limit_s=60)
    for _ in range(5):
        backoff.next_s()
    backoff.reset()

    assert backoff.next_s() < 1.5


def test_many_retries_do_not_overflow() -> None:
    backoff = Backoff(first_s=1, limit_s=60)

    assert [backoff.next_s() for _ in range(5000)][-1] < 90


class _StoppedClock(WakeupPipe):
    """A clock that advances only while a process waits on the pipe."""

    now_s = 0.0

    def wait(self, timeout_s: float, *, also: object = None) -> bool:
        assert also is None
        self.now_s += timeout_s
        return False


@pytest.mark.parametrize("asked_s", [0.0, 3600.0, None])
def test_a_retry_after_of_an_hour_does_not_delay_the_last_report_beyond_the_lease(
    monkeypatch: pytest.MonkeyPatch, asked_s: float | None
) -> None:
    clock = _StoppedClock()
    monkeypatch.setattr(retry, "monotonic", lambda: clock.now_s)
    tries = []

    def attempt() -> str:
        tries.append(clock.now_s)
        if clock.now_s < 100:
            raise UnreachableError("the server answered 503", retry_after_s=asked_s)
        return "Done"

    assert Retry(clock).call("finish", attempt, until=lambda: 1800.0) == "Done"
    assert all(later > earlier for earlier, later in pairwise(tries))


def test_a_wakeup_signal_wakes_at_once_and_only_once() -> None:
    wakeup = WakeupPipe()
    for _ in range(100_000):  # more than a pipe holds
        wakeup.wake()
    before = time.monotonic()
    wakeup.wait(30)
    assert time.monotonic() - before < 30

    wakeup.wait(0.01)  # the signals of before are forgotten


# ---- measuring

STAT = "42 ({name}) S 7 42 42 0 -1 4194304 500 0 0 0 150 50 1000 2000 20 0 1 0 5000 1000000 256 18446744073709551615"


@pytest.mark.parametrize("name", ["sh", "a b", "evil) R 1 1 1", "((", ") S 99 (", ""])
def test_a_process_name_cannot_forge_its_stat_line(name: str) -> None:
    ticks, page_mb = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 1024**2

    process = processes.parse_stat(STAT.format(name=name))

    assert process == processes.Process(42, 7, 200 / ticks, 3000 / ticks, 256 * page_mb, 5000)


def test_descendants_are_found_at_any_depth() -> None:
    family = {pid: processes.Process(pid, parent, 0, 0, 0) for pid, parent in [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)]}

    assert [process.pid for process in processes.descendants(2, family)] == [3, 4]
    assert list(processes.descendants(6, family)) == []


def test_cpu_of_ended_children_is_counted_once(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass\n"
    told = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint('x', flush=True)\ninput()"
    # Of other processes that tests of this worker have started.
    others = processes.measure(os.getpid()).cpu_s
    with subprocess.Popen(
        [sys.executable, "-c", told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.read(1)
        tree = processes.measure(os.getpid())
        parent.kill()

    # The kernel counts in ticks of 10 ms.
    assert 0.39 - 1e-6 <= tree.cpu_s - others < 1.5
    assert tree.memory_mb > 1
    assert len(tree.processes) >= 1


def test_disk_usage_follows_no_links_and_counts_a_file_once(tmp_path: Path) -> None:
    (tmp_path / "job" / "deep").mkdir(parents=True)
    (tmp_path / "job" / "deep" / "file").write_bytes(os.urandom(1_000_000))
    os.link(tmp_path / "job" / "deep" / "file", tmp_path / "job" / "same")
    (tmp_path / "big").write_bytes(os.urandom(3_000_000))
    (tmp_path / "job" / "link").symlink_to("../big")
    (tmp_path / "job" / "up").symlink_to("..")

    assert 0.95 <= disk_usage_mb(str(tmp_path / "job")) < 1.1


def test_a_disk_usage_scan_of_many_files_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"1" * 5000)
    found = (str(tmp_path / "file"), (tmp_path / "file").stat())
    monkeypatch.setattr(user_helper, "walk", lambda _: repeat(found))

    assert user_helper.disk_usage_mb(str(tmp_path), within_s=0.05) > 0


def test_the_tail_is_the_last_lines_of_valid_text(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"first\n" * 5000 + b"\xc3\xa9\x00\xff last")
    with path.open("rb") as file:
        tail = heartbeat.tail_of(file.fileno())

    assert tail.splitlines() == ["first"] * 19 + ["\u00e9\ufffd last"]

    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        assert heartbeat.tail_of(file.fileno()) == "x" * 4096


_BAR = b"".join(b"\r%6d/100000 %s" % (step, b"#" * 40) for step in range(1, 100_001))


@pytest.mark.parametrize(
    ("written", "tail"),
    [
        (b"first\nsecond\n" + _BAR, f"first\nsecond\n100000/100000 {'#' * 40}"),
        (b"first\n" + _BAR.replace(b"\r", b"", 1) + b"\r\nlast\n", f"first\n100000/100000 {'#' * 40}\nlast\n"),
        (b"first\r\nsecond\r\n", "first\nsecond\n"),
        (b"50%\r", "50%"),
        ("a\x0bb\u2028c\x85".encode() + b"\n" * 19, "a\x0bb\u2028c\x85" + "\n" * 19),
        ("\u00e9".encode() * 4000 + b"x", "\u00e9" * 2047 + "x"),
        (b"\n" * 50, "\n" * 20),
        (b"", ""),
    ],
)
def test_the_tail_is_what_a_terminal_shows(tmp_path: Path, written: bytes, tail: str) -> None:
    (tmp_path / "out").write_bytes(written)
    with (tmp_path / "out").open("rb") as file:
        assert heartbeat.tail_of(file.fileno()) == tail


def test_a_directory_without_permissions_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "locked" / "inner").mkdir(parents=True)
    (top / "locked" / "inner" / "file").write_text("x")
    (top / "link").symlink_to(tmp_path)
    (top / "locked" / "inner").chmod(0)
    (top / "locked").chmod(0)

    remove_tree(str(top))

    assert not top.exists()
    assert tmp_path.exists()


# ---- the node


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"ID": "almalinux", "ID_LIKE": "rhel centos fedora", "VERSION_ID": "9.4"}, "x86_64-el9"),
        ({"ID": "centos", "ID_LIKE": "rhel fedora", "VERSION_ID": "7"}, "x86_64-el7"),
        ({"ID": "rhel", "VERSION_ID": "8.10"}, "x86_64-el8"),
        ({"ID": "fedora", "VERSION_ID": "41"}, "x86_64-fedora41"),
        ({"ID": "debian", "VERSION_ID": "12"}, "x86_64-debian12"),
        ({"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04"}, "x86_64-ubuntu24"),
        ({"ID": "arch"}, "x86_64-arch"),
        ({}, "x86_64-linux"),
    ],
)
def test_platforms_are_named_as_jobs_name_them(told: dict[str, str], name: str) -> None:
    assert inspection.system_name(told, machine="x86_64") == name


def test_the_batch_id_is_that_of_the_batch_system(tmp_path: Path) -> None:
    advertisement = tmp_path / ".job.ad"
    advertisement.write_text('MyType = "Job"\nClusterId = 12\nProcId = 3\nNotProcId = 9\n')

    assert batch_system.id_in_batch_system({"SLURM_JOB_ID": "77"}) == "77"
    assert batch_system.id_in_batch_system({"_CONDOR_JOB_AD": str(advertisement), "_CONDOR_SLOT": "slot1"}) == "12.3"
    assert batch_system.id_in_batch_system({"_CONDOR_SLOT": "slot1"}) == "slot1"
    assert batch_system.id_in_batch_system({}) == ""


@pytest.mark.parametrize(
    ("membership", "files", "limit_mb"),
    [
        ("0::/slurm/job_7\n", {"slurm/job_7/memory.max": "2147483648", "slurm/memory.max": "max"}, 2048),
        ("0::/slurm/job_7\n", {"slurm/job_7/memory.max": "max", "slurm/memory.max": "1073741824"}, 1024),
        ("0::/\n", {"memory.max": "1048576"}, 1),
        ("0::/of/the/host\n", {"memory.max": "1048576"}, 1),
        ("0::/\n", {}, None),
        ("4:cpu:/\n3:memory:/condor/j\n", {"memory/condor/j/memory.limit_in_bytes": "536870912"}, 512),
        ("3:memory:/j\n", {"memory/j/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("", {}, None),
    ],
)
def test_the_memory_limit_is_that_of_the_control_groups(
    tmp_path: Path, membership: str, files: dict[str, str], limit_mb: float | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")

    assert cgroups.memory_limit_mb(membership, tmp_path) == limit_mb


def test_a_clock_that_is_far_off_makes_the_node_unfit(tmp_path: Path) -> None:
    assert inspection.look(tmp_path, min_free_disk_mb=0, skew_s=-299).ok
    assert inspection.look(tmp_path, min_free_disk_mb=0, skew_s=None).ok

    off = inspection.look(tmp_path, min_free_disk_mb=0, skew_s=301)

    assert [check.name for check in off.checks if not check.ok] == ["clock"]


# ---- leases by the clock


def _configuration(**more: object) -> PilotConfiguration:
    told = {"protocol": 1, "server_time": NOON.isoformat(), "lease_first_s": 300, "lease_s": 1800, "lease_grace_s": 60}
    return parse({**told, **more}, asked_at=monotonic())


def _lease(configuration: PilotConfiguration, *, expires_at: datetime | None = None) -> Lease:
    job = lease.parse_job({"id": 1, "executable": "true"})
    first = Renewal(sent_at=monotonic(), expires_at=expires_at, commands=())
    return Lease(
        match_id="m", token="t", job=job, data=JobData(), first=first, configuration=configuration, wakeup=WakeupPipe()
    )


@pytest.mark.parametrize(
    ("expires_in_s", "stops_in_s"),
    [
        (300, 240),
        (100, 40),  # the server's word is shorter than its settings
        (1800, 240),  # and longer: the shorter counts
        (-5000, 240),  # the server's clock was set: its settings count
        (None, 240),
    ],
)
def test_a_payload_stops_a_minute_before_its_lease_ends(expires_in_s: float | None, stops_in_s: float) -> None:
    expires_at = None if expires_in_s is None else NOON + timedelta(seconds=expires_in_s)

    held = _lease(_configuration(), expires_at=expires_at)

    assert stops_in_s - 5 < held.seconds_until_stop() <= stops_in_s
    assert held.stop_reason() is None


def test_the_newest_lease_renewal_counts() -> None:
    held, now = _lease(_configuration()), monotonic()

    held.renew(Renewal(sent_at=now + 100, expires_at=NOON + timedelta(seconds=1900), commands=()))
    held.renew(Renewal(sent_at=now + 50, expires_at=NOON + timedelta(seconds=1850), commands=()))

    assert 1835 < held.seconds_until_stop() <= 1840


def test_the_strongest_stop_reason_is_reported() -> None:
    held = _lease(_configuration(lease_first_s=0))
    assert held.stop_reason() == EXPIRING

    kill = lease.PilotCommand(id=3, name="kill")
    held.renew(Renewal(sent_at=monotonic(), expires_at=None, commands=(kill, kill)))
    assert held.stop_reason() == KILLED
    assert held.kills() == (3,)

    held.end("over")
    assert held.stop_reason() == ENDED


# ---- what is left of the slot


def test_at_the_start_the_whole_slot_time_is_offered_and_later_the_rest() -> None:
    slot = Resources(
        cpu_time_s=300_000,
        wall_time_s=450_000,
        processors=1,
        memory_mb=0,
        gpus=0,
        disk_mb=0,
        container=False,
        platforms=(),
        tags=(),
        required_tags=(),
    )

    assert slot.cpu_left_s(20.5) == 300_000
    assert slot.cpu_left_s(3000) == 300_000
    assert slot.cpu_left_s(3001.5) == 296_998
    assert slot.cpu_left_s(300_001) == -1


# ---- answers and the log

_MALFORMED: list[dict[str, object]] = [
    {},
    {"protocol": "1"},
    {"protocol": 1, "place": []},
    {"protocol": True},
    # Python reads them where JSON has none.
    {"protocol": 1, "heartbeat_s": math.nan},
    {"protocol": 1, "place": {"cpu_time_s": math.inf}},
]


@pytest.mark.parametrize("wrong", _MALFORMED)
def test_a_malformed_configuration_is_an_error_of_its_own(wrong: dict[str, object]) -> None:
    with pytest.raises(MalformedAnswerError):
        parse(wrong, asked_at=0)


@pytest.mark.parametrize("written", ["2026-06-01T12:00:00Z", "2026-06-01T14:00:00.000000+02:00"])
def test_times_are_read_with_their_zone(written: str) -> None:
    assert json_fields.moment({"at": written}, "at") == NOON


@pytest.mark.parametrize("written", ["2026-06-01T12:00:00", "yesterday", 5])
def test_times_without_a_zone_are_not_read(written: object) -> None:
    with pytest.raises(MalformedAnswerError):
        json_fields.moment({"at": written}, "at")


def test_a_log_event_is_always_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    agent_log.event("job.finished", job=7, minor='two\nlines "and" more', left_s=1.5, nothing=None)

    (line,) = capsys.readouterr().err.splitlines()
    assert line.split(" ", 1)[1] == 'job.finished job=7 minor="two\\nlines \\"and\\" more" left_s=1.500'


# ---- whose fault it is


@pytest.mark.parametrize(
    ("error_number", "fault"),
    [
        (errno.ENOENT, "job"),
        (errno.EACCES, "job"),
        (errno.E2BIG, "job"),
        (errno.EIO, None),
        (errno.ENOMEM, None),
        (errno.EMFILE, None),
        (errno.ESTALE, None),
    ],
)
def test_a_lack_of_node_resources_is_not_the_fault_of_the_job(error_number: int, fault: str | None) -> None:
    program = Program(Path("/no/such/program"), ["program"], {}, Path("/"))
    assert conclusion_of(PayloadOutcome(End(error_number=error_number)), program).fault == fault
