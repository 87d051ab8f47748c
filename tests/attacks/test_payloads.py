"""Payloads against their pilot, their neighbours and those that come after them: real agents, real processes."""

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import RunningAgent, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, Lease, ScriptedServer
from tests.pace import within
from tests.programs import needed

PYTHON = "/usr/bin/python3"
Start = Callable[..., RunningAgent]

#: Meets the test, which lets it go on; the word says which payload it is.
MEET = """
import socket
test = socket.create_connection(("127.0.0.1", {port}))
test.sendall(b"{word}\\n")
assert test.recv(1)
"""
VICTIM = f"""open("result", "w").write("mine")
mark = "{{mark}}"
{MEET}
print(open("result").read(), end="")
"""
#: Tries to trace, signal and read all others, and to rewrite their results; prints what it could do.
ATTACK = f"""import ctypes, glob, os, signal
{MEET}
library, done = ctypes.CDLL(None, use_errno=True), set()
family, pid = set(), os.getpid()
while pid > 0:
    family.add(pid)
    pid = int(open(f"/proc/{{{{pid}}}}/stat").read().rpartition(")")[2].split()[1])
for pid in [int(name) for name in os.listdir("/proc") if name.isdecimal()]:
    try:
        told = open(f"/proc/{{{{pid}}}}/cmdline", "rb").read()
    except OSError:
        continue
    if pid == os.getpid() or not any(word in told for word in (b"{{mark}}", b"agent.pyz", b"warden.py")):
        continue
    if library.ptrace(16, pid, 0, 0) == 0:
        done.add(f"traced {{{{told}}}}")
        os.waitpid(pid, 0x40000000)
        library.ptrace(17, pid, 0, 0)
    for name in ("environ", "mem", "maps", "cwd/result"):
        try:
            open(f"/proc/{{{{pid}}}}/{{{{name}}}}", "rb").read(1)
            done.add(f"read {{{{name}}}} of {{{{told}}}}")
        except OSError:
            pass
    try:
        os.kill(pid, signal.SIGCONT)
        done.add(f"signalled {{{{told}}}}")
    except OSError:
        pass
for path in {{{{*glob.glob("/tmp/**/result", recursive=True), *glob.glob("/proc/*/cwd/result")}}}}:
    try:
        open(path, "w").write("stolen")
        done.add(f"wrote {{{{path}}}}")
    except OSError:
        pass
print(sorted(done), end="")
"""


class Meeting:
    """Where payloads wait until the test lets them go on, in whatever namespaces they are."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(within(60))
        self.port = self._listener.getsockname()[1]
        self._there: dict[str, socket.socket] = {}

    def wait_for(self, *words: str) -> None:
        while not set(words) <= self._there.keys():
            connection, _ = self._listener.accept()
            connection.settimeout(within(60))
            self._there[connection.makefile().readline().strip()] = connection

    def let_go(self, word: str) -> None:
        """Let it go on, and wait until it has ended."""
        connection = self._there[word]
        connection.sendall(b"!")
        assert connection.recv(1) == b""
        connection.close()

    def close(self) -> None:
        for each in (self._listener, *self._there.values()):
            each.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        server.configuration["place"] |= {"processors": 4, "memory_mb": 8000, "disk_mb": 1000}
        yield server


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with closing(Meeting()) as meeting:
        yield meeting


@pytest.fixture
def directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="wms-attack-", dir="/tmp"))  # pytest's own is closed to others
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["root"])
def start(request: pytest.FixtureRequest, server: ScriptedServer, directory: Path) -> Iterator[Start]:
    """Return what starts a pilot: as root, whose payloads have user ids of their own."""
    needed("useradd")
    with ExitStack() as stack:

        def start(*options: str, **more: Any) -> RunningAgent:
            return stack.enter_context(
                RunningAgent(server.url, directory, *options, packed=True, python=PYTHON, **more)
            )

        yield start


def python(server: ScriptedServer, program: str) -> None:
    """Add a job that runs a program in Python."""
    server.add_job(PYTHON, "program.py", input_sandboxes=[server.add_sandbox(program.encode(), file_name="program.py")])


def printed(lease: Lease) -> str:
    assert lease.finished is not None
    assert lease.finished["exit_code"] == 0, lease.files()
    return lease.files()["std.out"]


def test_no_payload_touches_another_that_runs_beside_it_nor_the_pilot(
    server: ScriptedServer, start: Start, meeting: Meeting
) -> None:
    mark = marker()
    python(server, VICTIM.format(port=meeting.port, word="victim", mark=mark))
    python(server, ATTACK.format(port=meeting.port, word="attacker", mark=mark))
    agent = start(environment={"MARK": mark})

    meeting.wait_for("victim", "attacker")
    meeting.let_go("attacker")
    meeting.let_go("victim")

    assert agent.wait() == 0, agent.log
    told = sorted(printed(lease) for lease in server.leases)
    assert told == ["[]", "mine"]


def test_payloads_of_a_pilot_that_is_root_are_nobody_and_share_nothing(
    server: ScriptedServer, start: Start, directory: Path
) -> None:
    secret = directory / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    probe = (
        f'id -u; id -g; id -G; grep -E "^(Uid|Cap(Prm|Eff|Amb)|NoNewPrivs)" /proc/self/status | sort; '
        f"cat {secret} 2>&1; sudo -n true 2>&1 | head -n 1; stat -c %u:%a ."
    )
    for _ in range(2):
        server.add_job("/bin/sh", f"-c '{probe}'")

    agent = start()

    assert agent.wait() == 0, agent.log
    seen = [printed(lease).splitlines() for lease in server.leases]
    for lines in seen:
        uid = lines[0]
        assert 60706 <= int(uid) < 65520
        assert lines[:3] == [uid] * 3
        zero = "0" * 16
        assert lines[3:8] == [
            f"CapAmb:\t{zero}", f"CapEff:\t{zero}", f"CapPrm:\t{zero}", "NoNewPrivs:\t1",
            "\t".join(["Uid:", *[uid] * 4]),
        ]  # fmt: skip
        assert lines[8].endswith("Permission denied")
        assert lines[-1] == f"{uid}:700"
    assert seen[0][0] != seen[1][0]


def test_what_such_a_payload_leaves_running_or_on_disk_is_gone_with_it(server: ScriptedServer, start: Start) -> None:
    mark = marker()
    # A daemon that kills all that it may, again and again.
    daemon = f"trap '' TERM; while :; do kill -9 -1; exec -a {mark} sleep {mark}; done"
    server.add_job("/bin/bash", f'-c "(setsid bash -c \\"{daemon}\\" & ) & sleep 0.3; exit 0"')
    left = f"/tmp/left-{mark}"
    server.add_job("/bin/sh", f"-c 'mkdir {left}; echo x > {left}/x; echo y > /dev/shm/left-{mark}'")
    server.add_job("/bin/sh", "-c 'echo after'")

    agent = start()

    assert agent.wait() == 0, agent.log
    assert [lease.finished is not None for lease in server.leases] == [True] * 3
    assert printed(server.leases[2]) == "after\n"
    assert processes_with(mark) == []
    assert not Path(left).exists()
    assert not Path(f"/dev/shm/left-{mark}").exists()
    assert PILOT_TOKEN not in agent.log
