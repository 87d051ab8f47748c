"""The memory of a payload includes files in memory, each page once, whatever keeps it apart; sudo: test_identity.py."""

import mmap
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pilots.agent.job import accounts
from pilots.agent.job.execution import PayloadOutcome
from pilots.agent.job.memory_use import PayloadScope, memory_of
from pilots.agent.job.payload import End
from pilots.agent.job.payload_records import PayloadRecord
from pilots.agent.job.preparation import Program
from pilots.agent.job.wrapper import conclusion_of
from pilots.agent.node import cgroups
from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.scripted import ScriptedServer

_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
_ISOLATIONS = (
    pytest.param("user id and namespaces", marks=_ROOT),
    pytest.param("user id", marks=_ROOT),
    "namespaces",
    pytest.param("one payload at a time", marks=_ROOT),
)
_WRITE = "\nfor _ in range(150): file.write(bytes(2**20))\nfile.flush()\n"
#: Python that holds 150 MB outside of its process, by what holds them.
HOLDERS = {
    "file": "file = open('/dev/shm/{name}', 'wb')" + _WRITE + "file.close()\n",
    "deleted file": "file = open('/dev/shm/{name}', 'wb'); os.unlink(file.name)" + _WRITE,
    "memfd": "file = open(os.memfd_create('held'), 'wb')" + _WRITE,
    "segment": (
        "import ctypes; library = ctypes.CDLL(None); library.shmat.restype = ctypes.c_void_p\n"
        "place = library.shmat(library.shmget(0, ctypes.c_size_t(150 * 2**20), 0o1600), None, 0)\n"
        "ctypes.memset(ctypes.c_void_p(place), 1, 150 * 2**20); {segment}\n"
    ),
    "nested tmpfs": (
        "import subprocess\n"
        "script = 'mount -t tmpfs none /mnt && head -c 150M /dev/zero >/mnt/held && echo && sleep 900'\n"
        "subprocess.Popen(['unshare', '-Urm', 'sh', '-c', script], stdout=subprocess.PIPE).stdout.readline()\n"
    ),
}
_RESIDENT = "kept = b'1' * (150 * 2**20); print('held', flush=True); time.sleep(900)\n"
_CGROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def name() -> Iterator[str]:
    """Return the name of a file that the payload makes in /dev/shm."""
    name = f"wms-test-{uuid4().hex}"
    yield name
    Path("/dev/shm", name).unlink(missing_ok=True)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Return a directory in memory that every user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="wms-test-", dir="/dev/shm"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def _add(server: ScriptedServer, script: str, **more: Any) -> None:
    server.configuration["watchdog"]["memory_factor"] = 1.1
    server.add_job(PYTHON, f"-c {shlex.quote('import os, time' + chr(10) + script)}", **more)


def _check_stopped(server: ScriptedServer) -> None:
    assert server.lease.finished is not None
    minor = str(server.lease.finished["minor_status"])
    stopped = re.fullmatch(r"Memory limit exceeded: ([\d.]+) MB of 220 MB, ([\d.]+) MB of it files in memory.*", minor)
    assert stopped, (minor, server.lease.files())
    assert 220 < float(stopped[1]) < 345
    assert 150 <= float(stopped[2]) < 160


@pytest.mark.parametrize("isolation", _ISOLATIONS)
def test_files_in_shared_memory_count(
    server: ScriptedServer, start_isolated: StartAgent, name: str, isolation: str
) -> None:
    _add(server, HOLDERS["file"].format(name=name) + _RESIDENT, memory_mb=200)

    start_isolated(isolation)

    _check_stopped(server)


@pytest.mark.parametrize("isolation", _ISOLATIONS)
def test_files_in_a_work_directory_in_memory_count(
    server: ScriptedServer, start_isolated: StartAgent, in_memory: Path, isolation: str
) -> None:
    sandbox = server.add_sandbox(bytes(50 * 2**20), file_name="input")
    written = "file = open('held', 'wb')\nfor _ in range(100): file.write(bytes(2**20))\nfile.flush()\n"
    _add(server, written + _RESIDENT, memory_mb=200, input_sandboxes=[sandbox])

    start_isolated(isolation, directory=in_memory)

    _check_stopped(server)


def test_a_second_payload_of_the_account_is_noticed(tmp_path: Path) -> None:
    def record(match: str, *, account: str = "", uid: int = 0) -> PayloadRecord:
        return PayloadRecord(match, account=account, work_directory=tmp_path, uid=uid, directory=tmp_path)

    with record("1") as first, record("2", uid=accounts.UIDS[0]), record("3", account="wms01"):
        assert first.is_alone()
        with record("4") as second:
            assert not first.is_alone()
            assert not second.is_alone()
        assert first.is_alone()


@pytest.mark.parametrize("isolation", ["user id", "namespaces"])
@pytest.mark.parametrize("holder", ["deleted file", "memfd", "segment", "nested tmpfs"])
def test_what_no_process_maps_counts(
    server: ScriptedServer, start_isolated: StartAgent, name: str, isolation: str, holder: str
) -> None:
    if isolation == "user id" and os.geteuid() != 0:
        pytest.skip("becomes other users")
    left = HOLDERS[holder].format(name=name, segment="library.shmdt(ctypes.c_void_p(place))")
    _add(server, left + _RESIDENT, memory_mb=200)

    start_isolated(isolation)

    _check_stopped(server)
    segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    assert not [words for words in segments if int(words[3]) == 150 * 2**20 and int(words[7]) in accounts.UIDS]


@pytest.mark.parametrize(
    ("isolation", "first"),
    [
        ("namespaces", "[os.fork() for _ in 'ab']\n"),
        # Only root may inspect its process then: all that it shares may be the file.
        pytest.param("one payload at a time", "import ctypes; ctypes.CDLL(None).prctl(4, 0)\n", marks=_ROOT),
    ],
)
def test_a_mapped_file_counts_once(
    server: ScriptedServer, start_isolated: StartAgent, name: str, isolation: str, first: str
) -> None:
    mapped = (
        f"{first}import mmap; file = open('/dev/shm/{name}', 'r+b'); mapped = mmap.mmap(file.fileno(), 0)\n"
        "sum(mapped[at] for at in range(0, len(mapped), 4096)); time.sleep(3)\n"
    )
    _add(server, HOLDERS["file"].format(name=name) + mapped, memory_mb=250)

    start_isolated(isolation)

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert 150 < server.lease.finished["usage"]["memory_mb"] < 220


def test_a_segment_that_a_process_has_attached_counts_once(server: ScriptedServer, start_isolated: StartAgent) -> None:
    _add(server, HOLDERS["segment"].format(segment="time.sleep(2)"), memory_mb=250)

    start_isolated("namespaces")

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert 150 < server.lease.finished["usage"]["memory_mb"] < 220


def test_a_file_that_the_only_process_maps_counts_once(name: str) -> None:
    with Path("/dev/shm", name).open("w+b") as file:
        file.write(bytes(20 * 2**20))
        file.flush()
        with mmap.mmap(file.fileno(), 0) as mapped:
            sum(mapped[at] for at in range(0, len(mapped), 4096))
            (resident_mb,) = (
                int(line.split()[1]) / 1024
                for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmRSS:")
            )
            scope = PayloadScope(tops=(), uid=os.getuid(), since=os.fstat(file.fileno()).st_ctime)
            used = memory_of({os.getpid(): resident_mb}, scope)

    assert used.files_mb >= 20
    assert used.total_mb < resident_mb + used.files_mb - 19


@pytest.mark.parametrize("isolation", ["namespaces", pytest.param("user id and namespaces", marks=_ROOT)])
@pytest.mark.parametrize(("memory_mb", "processors", "size_mb"), [(200, 1, 220), (0, 1, 500), (0, 2, 1000)])
def test_shared_memory_is_as_large_as_the_memory_of_the_job(
    server: ScriptedServer, start_isolated: StartAgent, isolation: str, memory_mb: int, processors: int, size_mb: int
) -> None:
    server.configuration["place"] |= {"processors": 4, "memory_mb": 2000}
    script = "size = os.statvfs('/dev/shm'); print(size.f_blocks * size.f_frsize // 2**20, size.f_files)"
    _add(server, script, memory_mb=memory_mb, processors=processors)

    start_isolated(isolation)

    assert server.lease.files()["std.out"] == f"{size_mb} {size_mb * 256}\n"


# ---- killed by the kernel


@pytest.fixture
def small_slot() -> Iterator[Path]:
    """Return a control group with 120 MB of memory."""
    group = _CGROUPS / f"wms-test-{uuid4().hex}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(120 * 2**20))
    except OSError:
        pytest.skip("control groups of version 1 cannot be made here")
    yield group
    group.rmdir()


@_ROOT
@pytest.mark.parametrize(
    ("script", "exit_code", "beginning"),
    [
        ("exec {python} -c {memory}", 137, "Killed because memory ran out: "),
        ("{python} -c {memory}", 137, "Killed because memory ran out: "),
        (
            "{python} -c {memory} || exit 3",
            3,
            "Exited with code 3 after a process of the slot was killed because memory ran out: ",
        ),
    ],
)
def test_a_payload_that_the_kernel_killed_says_so(
    server: ScriptedServer, start: StartAgent, small_slot: Path, script: str, exit_code: int, beginning: str
) -> None:
    memory = shlex.quote("kept = [b'1' * 2**20 for _ in range(1000)]")
    server.add_job("/bin/sh", f"-c {shlex.quote(script.format(python=PYTHON, memory=memory))}")
    server.add_job("/bin/sh", "-c 'kill -KILL $$'")

    agent = start(enter=("sh", "-c", f'echo $$ >{small_slot}/cgroup.procs && exec "$0" "$@"'))

    assert agent.wait() == 0, agent.log
    killed, by_itself = (lease.finished for lease in server.leases)
    assert killed
    assert killed["exit_code"] == exit_code
    assert killed["minor_status"].startswith(f"{beginning}the slot may use 120 MB, the job used ")
    assert by_itself
    assert by_itself["minor_status"] == "Killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize(
    ("membership", "files", "killed"),
    [
        ("0::/slurm/job_7\n", {"slurm/job_7/memory.events": "low 0\noom 3\noom_kill 2\n"}, 2),
        ("0::/of/the/host\n", {"memory.events": "oom_kill 4\n"}, 4),
        ("0::/\n", {}, 0),
        ("4:cpu:/\n3:memory:/j\n0::/\n", {"memory/j/memory.oom_control": "under_oom 0\noom_kill 5\n"}, 5),
    ],
)
def test_kills_are_counted_in_either_version(
    tmp_path: Path, membership: str, files: dict[str, str], killed: int
) -> None:
    _write(tmp_path, files)
    assert cgroups.killed_for_memory(membership, tmp_path) == killed


def test_a_group_of_the_payload_is_read_if_the_kernel_counts_memory_for_it(tmp_path: Path) -> None:
    group = tmp_path / "slot" / "wms-payload-1"
    _write(tmp_path, {"slot/memory.events": "oom_kill 7\n", "slot/wms-payload-1/cgroup.events": "populated 1\n"})
    assert cgroups.held_memory_mb(group) is None
    assert cgroups.killed_for_memory("0::/slot\n", tmp_path, group=group) == 7

    statistics = f"anon {150 * 2**20}\nfile {999 * 2**20}\nkernel 4096\nshmem {150 * 2**20}\n"
    _write(group, {"memory.stat": statistics, "memory.events": "oom_kill 1\n"})
    assert cgroups.held_memory_mb(group) == 300
    assert cgroups.killed_for_memory("0::/slot\n", tmp_path, group=group) == 1


def _write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def test_a_killed_child_of_a_payload_that_succeeded_is_no_failure() -> None:
    program = Program(Path("/bin/true"), ["true"], {}, Path("/"))
    outcome = PayloadOutcome(End(exit_code=0), out_of_memory="memory ran out: the slot may use 120 MB")
    assert conclusion_of(outcome, program).minor is None
