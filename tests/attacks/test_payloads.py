"""Payloads against their pilot, their neighbours and those that come after them: real agents, real processes."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import ORDINARY_USER, WITHOUT_NAMESPACES, RunningAgent, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, Lease, ScriptedServer
from tests.pace import within

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
        # The first process of its own namespace ignores what comes from within.
        os.kill(pid, signal.SIGCONT)
        done.add(f"signalled {{{{told}}}}") if pid not in family else None
    except OSError:
        pass
places = ("/tmp/*/work/*/job/result", "/tmp/*/work/*/gate/area/job/result", "/proc/*/cwd/result")
for path in [path for place in places for path in glob.glob(place)]:
    try:
        where = os.path.realpath(path)
        open(path, "w").write("stolen")
        done.add(f"wrote {{{{where}}}}")
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


@pytest.fixture
def start_as(server: ScriptedServer, directory: Path) -> Iterator[Start]:
    """Return what starts a pilot as root, whose payloads have user ids, or as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can start pilots as others")
    with ExitStack() as stack:

        def start(*options: str, node: str, **more: Any) -> RunningAgent:
            own: dict[str, Mapping[str, Any]] = {
                "root": {},
                "namespaces": {"user": ORDINARY_USER},
                "neither": WITHOUT_NAMESPACES,
            }
            place = directory / more.pop("stamp", "")
            place.mkdir(exist_ok=True)
            return stack.enter_context(
                RunningAgent(server.url, place, *options, packed=True, python=PYTHON, show=False, **own[node], **more)
            )

        yield start


@pytest.fixture(params=["root", "namespaces"])
def start(request: pytest.FixtureRequest, start_as: Start) -> Start:
    """Return what starts a pilot on a node where its payloads may have namespaces of their own."""
    return partial(start_as, node=request.param)


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
    server: ScriptedServer, start_as: Start, directory: Path
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

    agent = start_as(node="root")

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
        assert lines[8].endswith(("Permission denied", "No such file or directory"))
        assert lines[-1] == f"{uid}:700"
    assert seen[0][0] != seen[1][0]


#: Leaves a process in a session of its own, whose parent has ended, that kills whatever it may.
DAEMON = f"""import os, signal, time
{MEET}
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        mark = "{{mark}}"
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass
            time.sleep(0.01)
    os._exit(0)
time.sleep(600)
"""


def test_a_payload_that_kills_all_it_may_kills_only_itself(
    server: ScriptedServer, start: Start, meeting: Meeting
) -> None:
    mark = marker()
    python(server, VICTIM.format(port=meeting.port, word="neighbour", mark=mark))
    python(server, DAEMON.format(port=meeting.port, word="daemon", mark=mark))
    agent = start()
    next_pilot = start(stamp="other")

    meeting.wait_for("neighbour", "daemon")
    meeting.let_go("daemon")
    meeting.let_go("neighbour")

    assert agent.wait() == 0, agent.log
    assert next_pilot.wait() == 0, next_pilot.log
    codes = {lease.finished["exit_code"]: lease for lease in server.leases if lease.finished}
    assert sorted(codes) == [0, 137]
    assert codes[0].files()["std.out"] == "mine"
    assert processes_with(mark) == []


def test_what_a_payload_leaves_in_directories_of_all_is_found_by_nobody(server: ScriptedServer, start: Start) -> None:
    mark = marker()
    places = f"/tmp/left-{mark} /var/tmp/left-{mark} /dev/shm/left-{mark}"
    server.add_job("/bin/sh", f"-c 'for place in {places}; do echo x > $place; done; ls {places}'")
    server.add_job("/bin/sh", f"-c 'ls {places} 2> /dev/null; echo after'")

    agent = start("--max-jobs", "2", node_processors=1)

    assert agent.wait() == 0, agent.log
    left, found = map(printed, server.leases)
    assert left.split() == sorted(places.split(), key=lambda each: each)
    assert found == "after\n"
    assert not [place for place in places.split() if Path(place).exists()]


def test_no_payload_reads_the_token_its_pilot_came_with_nor_what_is_hidden(
    server: ScriptedServer, start: Start, directory: Path, request: pytest.FixtureRequest
) -> None:
    of_pilot = directory / "of-the-server"
    of_pilot.mkdir()
    for each in (of_pilot / "key", directory / "token"):
        each.write_text(PILOT_TOKEN)
        each.chmod(0o600)
        shutil.chown(each, "root" if "root" in request.node.name else ORDINARY_USER)
    probe = f"cat {of_pilot}/key {directory}/token {directory}/work/../token /proc/1/root{directory}/token 2>&1"
    server.add_job("/bin/sh", f"-c '{probe}; echo done'")

    agent = start("--hide", str(of_pilot), token_file=directory / "token")

    assert agent.wait() == 0, agent.log
    said = printed(server.lease)
    assert said.endswith("done\n")
    assert PILOT_TOKEN not in said


def test_where_nothing_separates_payloads_one_runs_at_a_time_and_the_node_says_so(
    server: ScriptedServer, start_as: Start, meeting: Meeting
) -> None:
    mark = marker()
    for word in ("first", "second"):
        python(server, VICTIM.format(port=meeting.port, word=word, mark=mark))
    agent = start_as(node="neither")

    meeting.wait_for("first")
    assert server.node_reports[0]["node"]["isolation"] == "one payload at a time"
    assert len(server.leases) == 1
    meeting.let_go("first")
    meeting.wait_for("second")
    meeting.let_go("second")

    assert agent.wait() == 0, agent.log
    assert [printed(lease) for lease in server.leases] == ["mine", "mine"]
    assert {seen.body["max_jobs"] for seen in server.requests_to("/matches/")} == {1}


@pytest.mark.parametrize(("node", "isolation"), [("root", "user id and namespaces"), ("namespaces", "namespaces")])
def test_the_nodes_report_says_what_separates_payloads(
    server: ScriptedServer, start_as: Start, node: str, isolation: str
) -> None:
    assert start_as(node=node).wait() == 0

    assert server.node_reports[0]["node"]["isolation"] == isolation
    assert {"name": "isolation", "ok": True, "detail": isolation} in server.node_reports[0]["checks"]


def test_a_pilot_whose_payloads_could_read_its_token_file_takes_no_jobs(
    server: ScriptedServer, start_as: Start, directory: Path
) -> None:
    (directory / "own").mkdir()
    token = directory / "own" / "token"
    token.write_text(PILOT_TOKEN)
    token.chmod(0o600)
    shutil.chown(token, ORDINARY_USER)
    shutil.chown(token.parent, ORDINARY_USER)
    server.add_job("/bin/sh", f"-c 'cat {token}'")

    refused = start_as(node="neither", token_file=token)

    assert refused.wait() == 1
    assert f"jobs could read the token file {token}" in server.leaving[0]
    assert not server.leases
    # A pipe leaves nothing behind.
    through_a_pipe = start_as(node="neither")
    assert through_a_pipe.wait() == 0, through_a_pipe.log
    removed = start_as("--remove-token-file", node="neither", token_file=token)
    assert removed.wait() == 0, removed.log
    assert not token.exists()


def test_a_payload_without_namespaces_does_not_look_into_its_pilot(
    server: ScriptedServer, start_as: Start, meeting: Meeting, directory: Path
) -> None:
    python(server, ATTACK.format(port=meeting.port, word="attacker", mark=marker()))
    agent = start_as(node="neither")

    meeting.wait_for("attacker")
    meeting.let_go("attacker")

    assert agent.wait() == 0, agent.log
    # What other pilots of this account have on this machine is open to it.
    assert not [word for word in ("read", "traced", f"wrote {directory}") if word in printed(server.lease)]
