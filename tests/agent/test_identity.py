"""Users of payloads: the pilot's own, or other real ones by sudo; and what such payloads can see of the pilot.

Root creates the users and the sudoers file for these tests and removes them; without root such tests are skipped.
"""

import json
import os
import pwd
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.base import shared_directories
from pilots.agent.job import accounts
from pilots.agent.job.accounts import NoAccountError
from pilots.backends import host
from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.running import RunningAgent, ancestor_below, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer
from tests.payload_environment import ARGUMENTS, EXECUTABLE, check_environment
from tests.programs import needed

#: Makes users, and becomes them.
pytestmark = pytest.mark.root


@dataclass(frozen=True)
class Node:
    """A node with a user for pilots, who may become one of the users for payloads."""

    pilot: str
    payloads: Sequence[str]
    directory: Path


def _repeated(*command: str) -> None:
    """Run a command that fails while another process locks the list of users, until it succeeds."""
    for _ in range(100):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "lock" not in done.stderr:
            break
        time.sleep(0.1)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def users() -> Iterator[Sequence[str]]:
    """Make three users; the first may become the others by sudo."""
    needed("sudo", "useradd")
    names = [f"wmst{os.getpid()}{letter}" for letter in "abc"]
    sudoers = Path("/etc/sudoers.d", names[0])
    try:
        for name in names:
            _repeated("/usr/sbin/useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name)
        # What newer sudos do by themselves.
        sudoers.write_text(f"Defaults:{names[0]} use_pty\n{names[0]} ALL=({names[1]},{names[2]}) NOPASSWD: ALL\n")
        sudoers.chmod(0o440)
        yield names
    finally:
        sudoers.unlink(missing_ok=True)
        for name in names:
            _repeated("/usr/sbin/userdel", "--force", name)


@pytest.fixture
def node(users: Sequence[str], server: ScriptedServer) -> Iterator[Node]:
    """Return a node where payloads run as the last two users."""
    directory = Path(tempfile.mkdtemp(prefix="wms-identity-", dir="/tmp"))  # pytest's own is closed to others
    directory.chmod(0o755)
    server.configuration["place"] |= {"identity": "sudo", "payload_users": list(users[1:])}
    try:
        yield Node(users[0], users[1:], directory)
    finally:
        shutil.rmtree(directory)
        for what in ("accounts", "payloads"):
            shutil.rmtree(f"/tmp/wms-{what}-{pwd.getpwnam(users[0]).pw_uid}", ignore_errors=True)


@pytest.fixture
def start_there(server: ScriptedServer, node: Node) -> Iterator[Callable[..., RunningAgent]]:
    """Return a function that starts a pilot as the user for pilots."""
    with ExitStack() as stack:

        def start(*options: str, **more: Any) -> RunningAgent:
            place = more.pop("directory", node.directory)
            more["environment"] = {"PATH": more.pop("path", "/usr/bin:/bin")}
            agent = RunningAgent(server.url, place, *options, packed=True, python=PYTHON, user=node.pilot, **more)
            return stack.enter_context(agent)

        yield start


def _shell(script: str) -> tuple[str, str]:
    return "/bin/sh", f"-c {shlex.quote(script)}"


def _ended(server: ScriptedServer) -> tuple[int | None, str | None]:
    assert server.lease.finished is not None
    return server.lease.finished["exit_code"], server.lease.finished.get("minor_status")


def _processes_of(user: str) -> list[str]:
    uid = pwd.getpwnam(user).pw_uid
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.stat().st_uid == uid:
                found.append((place / "cmdline").read_text())
        except OSError:
            continue
    return found


# ---- sudo


def test_a_payload_runs_as_another_user_and_its_output_is_collected(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    script = server.add_sandbox(
        b"#!/bin/sh\ncat data; echo more >> data; id -un; umask 077; cp data out\n", file_name="run"
    )
    data = server.add_sandbox(b"given\n", file_name="data")
    server.add_job("run", input_sandboxes=[script, data], std_output="logs/std.out", output_sandbox=["out", "data"])

    agent = start_there()

    assert agent.wait() == 0, agent.log
    assert _ended(server) == (0, None), agent.log
    files = server.lease.files()
    given, name = files["logs/std.out"].splitlines()
    assert given == "given"
    assert name in node.payloads
    assert files["out"] == files["data"] == "given\nmore\n"
    assert list(agent.work.iterdir()) == []


def test_the_environment_and_directory_are_the_users_own(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    secret = "two words; $(id) \"quoted\" 'too'\nand a line"
    server.add_job(*_shell('env -0; stat -c "%U %a" "$HOME" "$TMPDIR" .'), environment={"MINE": secret})

    agent = start_there()

    assert agent.wait() == 0
    *variables, told = server.lease.files()["std.out"].split("\0")
    environment = dict(line.split("=", 1) for line in variables)
    user = environment["USER"]
    assert user in node.payloads
    assert environment["LOGNAME"] == user
    assert environment["MINE"] == secret
    assert environment["WMS_JOB_OWNER"] == "alice"
    assert not any(name.startswith("SUDO_") for name in environment)
    assert told.splitlines() == [f"{user} 700"] * 3


def test_an_account_has_the_documented_environment(server: ScriptedServer, start_there: StartAgent, node: Node) -> None:
    server.add_job(EXECUTABLE, ARGUMENTS)

    agent = start_there()

    assert agent.wait() == 0, agent.log
    assert (
        check_environment(server.lease.files()["std.out"], PATH="/usr/bin:/bin:/usr/local/bin")["USER"] in node.payloads
    )


def test_nothing_of_the_pilot_can_be_read(server: ScriptedServer, start_there: StartAgent, node: Node) -> None:
    probe = (
        'for top in "$HOME"/../../..; do ls "$top" "$top/pilot" "$top/.."; done; cat "$HOME/../../../pilot/"*; '
        f"for p in $(ps -u {node.pilot} -o pid=); do cat /proc/$p/environ /proc/$p/mem; ls /proc/$p/fd; "
        "kill -TERM $p; done; tr '\\0' ' ' < /proc/$PPID/cmdline; sudo -n true; echo done"
    )
    server.add_job(*_shell(f"({probe}) 2>&1"), environment={"KEY": "value-of-the-key"})

    agent = start_there()

    assert agent.wait() == 0, agent.log
    said = server.lease.files()["std.out"]
    assert said.endswith("done\n")
    assert said.count("Permission denied") >= 5
    assert "not permitted" in said
    for secret in (PILOT_TOKEN, server.lease.token, "value-of-the-key"):
        assert secret not in said
        assert secret not in agent.log


def test_a_program_that_a_payload_leaves_gives_its_account_to_no_later_one(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    """A set-user-id program of one account would make any later payload of another owner that account."""
    left = Path(f"/var/tmp/{node.pilot}-left")
    place = server.configuration["place"]
    first, second = node.payloads
    try:
        server.add_job(*_shell(f"cp /usr/bin/id {left}; chmod 4755 {left}; {left} -un"))
        place["payload_users"] = [first]
        assert start_there().wait() == 0
        server.add_job(*_shell(f"{left} -un; grep NoNewPrivs /proc/self/status"), owner="bob")
        place["payload_users"] = [second]
        assert start_there().wait() == 0

        assert left.stat().st_mode & stat.S_ISUID
        assert [lease.files()["std.out"] for lease in server.leases] == [f"{first}\n", f"{second}\nNoNewPrivs:\t1\n"]
    finally:
        left.unlink(missing_ok=True)


@pytest.mark.parametrize("path", [".:/usr/bin:/bin", ":/usr/bin:/bin", "bin:/usr/bin:/bin", "/usr/bin:/bin:"])
def test_no_program_is_run_from_the_current_directory(
    server: ScriptedServer, start_there: StartAgent, node: Node, path: str
) -> None:
    trap = node.directory / "trap"
    for place in (trap, trap / "bin"):
        place.mkdir()
        (place / "sudo").write_text(f"#!/bin/sh\nid -un > {trap}/taken\n")
        (place / "sudo").chmod(0o755)
        place.chmod(0o777)
        shutil.chown(place, node.payloads[0])
    server.add_job(*_shell("id -un"))

    agent = start_there(cwd=trap, path=path)

    assert agent.wait() == 0, agent.log
    assert not (trap / "taken").exists(), (trap / "taken").read_text()
    assert server.lease.files()["std.out"].strip() in node.payloads


def test_usage_of_a_payload_under_sudo_is_measured_and_limited(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    memory = "import time; kept = b'1' * 150_000_000; time.sleep(1000)"
    server.add_job(PYTHON, f"-c {shlex.quote(memory)}", memory_mb=100)
    server.add_job(*_shell("head -c 30000000 /dev/urandom > big; sleep 1000"), disk_mb=10)
    server.add_job(*_shell("exec 7> gone; rm gone; head -c 30000000 /dev/zero >&7; sleep 1000"), disk_mb=10)
    server.add_job(*_shell("while :; do :; done"), cpu_time_s=1)

    assert start_there("--grace-s", "0.5").wait() == 0

    minors = [lease.finished["minor_status"].split(" limit")[0] for lease in server.leases if lease.finished]
    assert minors == ["Memory", "Disk", "Disk", "CPU time"]
    assert _processes_of(node.payloads[0]) == _processes_of(node.payloads[1]) == []


@pytest.mark.parametrize("where", ["/dev/shm", "the work directory", "a memfd"])
def test_files_in_memory_of_a_payload_under_sudo_count(
    server: ScriptedServer, start_there: StartAgent, where: str, tmp_path: Path
) -> None:
    server.configuration["watchdog"]["memory_factor"] = 1.1
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="wms-identity-") as in_memory:
        Path(in_memory).chmod(0o1777)
        there = Path(in_memory) if where == "the work directory" else tmp_path
        path = {"/dev/shm": f"{in_memory}/held", "a memfd": "os.memfd_create('held')"}.get(where, "held")
        opened = path if where == "a memfd" else repr(path)
        held = (
            f"import os, time; file = open({opened}, 'wb'); [file.write(bytes(2**20)) for _ in 'x' * 150]; file.flush()"
        )
        kept = "kept = b'1' * (150 * 2**20); print('held', flush=True); time.sleep(900)"
        server.add_job(PYTHON, f"-c {shlex.quote(f'{held}; {kept}')}", memory_mb=200)
        there.chmod(0o755)

        agent = start_there(directory=there)

        assert agent.wait() == 0, agent.log
    exit_code, minor = _ended(server)
    assert exit_code is None
    assert re.fullmatch(
        r"Memory limit exceeded: [23]\d\d(\.\d)? MB of 220 MB, 150(\.\d)? MB of it files.*", str(minor)
    ), minor


def test_shared_memory_of_processes_under_sudo_counts_once(server: ScriptedServer, start_there: StartAgent) -> None:
    forks = "import os, time; kept = b'1' * 60_000_000; p = [os.fork() for _ in 'ab']; time.sleep(1.5)"
    server.add_job(PYTHON, f"-c {shlex.quote(forks)}", memory_mb=150)

    agent = start_there()

    assert agent.wait() == 0
    assert _ended(server) == (0, None), agent.log


@pytest.mark.parametrize("hindrance", ["trap '' TERM", "kill -STOP $PPID", "kill -KILL $PPID"])
def test_a_payload_under_sudo_is_killed_with_all_its_processes(
    server: ScriptedServer, start_there: StartAgent, node: Node, hindrance: str
) -> None:
    mark = marker()
    server.add_job(
        *_shell(f"trap '' TERM; setsid sleep {mark} & echo started; {hindrance}; sleep {mark}; sleep {mark}")
    )
    agent = start_there("--grace-s", "0.5")
    if "KILL" not in hindrance:
        server.wait_until(
            lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
        )
        server.order("kill", id=41)

    assert agent.wait() == 0, agent.log

    assert processes_with(mark) == []
    assert "started\n" in server.lease.files()["std.out"]
    assert _processes_of(node.payloads[0]) == _processes_of(node.payloads[1]) == []
    assert list(agent.work.iterdir()) == []


def test_a_killed_pilot_ends_its_payload_under_sudo_and_the_next_pilot_cleans_up(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    mark = marker()
    server.add_job(*_shell(f"mkdir -p a/b; chmod 0 a/b a; trap '' TERM; echo started; setsid sleep {mark}"))
    agent = start_there()
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )

    agent.process.kill()
    agent.process.wait()

    server.poll(lambda: not processes_with(mark))
    # The locks of a killed process are free only when it has quite gone.
    server.poll(lambda: not [each for each in _processes_of(node.pilot) if "agent.pyz" in each])
    assert start_there().wait() == 0
    assert list(agent.work.iterdir()) == []


def _kill_supervisors(server: ScriptedServer, agent: RunningAgent, mark: str, *, agent_too: bool) -> None:
    """Kill all supervisors of the job's running payload at once, so that none can react to another's end."""
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )
    server.poll(lambda: len(processes_with(mark)) >= 4)
    beats = len(server.lease.heartbeats)
    server.wait_until(lambda: len(server.lease.heartbeats) >= beats + 3)
    worker = ancestor_below(agent.process.pid, processes_with(mark)[0])
    supervisors = [pid for pid in processes_with("payload_supervisor.py") if _is_below(pid, worker)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in [worker, *supervisors, *([agent.process.pid] if agent_too else [])]:
            os.kill(pid, number)


def _tenacious(mark: str) -> tuple[str, str]:
    script = f"trap '' TERM; (setsid sleep {mark} &); (env -i setsid sleep {mark} &); echo started; sleep {mark}; :"
    return _shell(script)


@pytest.mark.parametrize("agent_lives", [True, False])
def test_a_payload_under_sudo_ends_when_its_supervisors_are_killed(
    server: ScriptedServer, start_there: StartAgent, node: Node, agent_lives: bool
) -> None:
    mark = marker()
    server.add_job(*_tenacious(mark))
    agent = start_there()
    _kill_supervisors(server, agent, mark, agent_too=not agent_lives)
    if not agent_lives:
        agent.process.wait()
        agent = start_there("--max-jobs", "1")

    assert agent.wait() == 0, agent.log
    assert processes_with(mark) == []
    if agent_lives:
        assert _ended(server) == (222, "The pilot's process for the job was ended by SIGKILL")
    assert list(agent.work.iterdir()) == []


def test_a_plain_host_ends_a_payload_under_sudo_of_a_killed_pilot(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    mark, stamp = marker(), "0" * 32
    own = node.directory / stamp
    own.mkdir(mode=0o755)
    server.add_job(*_tenacious(mark))
    agent = start_there(directory=own)
    _kill_supervisors(server, agent, mark, agent_too=True)
    agent.process.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (own / host.PROCESS).write_text(f"{os.uname().nodename} {boot} {agent.process.pid} 1 {agent.process.pid} 1")
    (own / host.EXIT_CODE).write_text("137")
    request = {"do": "look", "directory": str(node.directory), "stamps": [stamp]}

    def look() -> str:
        program = [PYTHON, "-c", Path(host.__file__).read_text()]
        user = pwd.getpwnam(node.pilot)
        done = subprocess.run(
            program, input=json.dumps(request).encode(), stdout=subprocess.PIPE, check=True,
            user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        return str(json.loads(done.stdout)[stamp]["presence"])

    assert look() == "running"
    server.poll(lambda: look() == "ended")
    assert processes_with(mark) == []


def _is_below(pid: int, top: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):  # a process of another test that has just ended
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if pid == top:
                return True
    return False


def test_files_locked_by_a_payload_under_sudo_are_removed_without_following_links(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    (node.directory / "secret").write_text("of the pilot")
    (node.directory / "secret").chmod(0o600)
    shutil.chown(node.directory / "secret", node.pilot)
    locked = "i=0; while [ $i -lt 1500 ]; do mkdir d; cd -P d; i=$((i+1)); done; cd; "  # deeper than a recursion can be
    locked += f"mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c a/b a; ln -s {node.directory}/secret stolen; echo y > kept"
    server.add_job(*_shell(locked), output_sandbox=["a", "stolen", "kept"])

    agent = start_there()

    assert agent.wait() == 0
    files = server.lease.files()
    assert files["kept"] == "y\n"
    assert files["a/b/c"] == "x\n"
    assert "stolen" not in files
    assert list(agent.work.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({"payload_users": ["no-such-user"]}, "there is no user no-such-user on the node"),
        ({"payload_users": ["root"]}, "user root is root"),
        ({"payload_users": ["daemon"]}, "sudo: a password is required"),
        ({"payload_users": []}, "the computing element names no payload_users"),
        ({"identity": "ghost"}, "this agent does not support the identity ghost; a newer agent is required"),
    ],
)
def test_a_payload_that_cannot_change_its_user_never_runs(
    server: ScriptedServer, start_there: StartAgent, place: dict[str, object], why: str
) -> None:
    server.configuration["place"] |= place
    server.add_job(*_shell("echo ran"))

    agent = start_there()

    assert agent.wait() == 0
    assert _ended(server) == (222, f"The payload cannot be given an identity of its own: {why}")
    assert server.flaws == [{"name": "identity", "detail": _ended(server)[1]}]
    assert server.lease.output is None


def test_a_standard_stream_that_cannot_be_opened_under_sudo_is_the_fault_of_the_job(
    server: ScriptedServer, start_there: StartAgent
) -> None:
    server.add_job("/bin/true", std_output="a/b", std_error="a")

    assert start_there().wait() == 0

    assert _ended(server) == (None, "Output cannot be written to a: Is a directory")
    assert server.flaws == []


def test_the_pilot_account_is_refused_as_payload_account(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    server.configuration["place"]["payload_users"] = [node.pilot]
    server.add_job("true")

    start_there().wait()

    assert _ended(server)[0] == 222
    assert str(_ended(server)[1]).endswith(f"user {node.pilot} is the pilot itself")


def test_a_work_directory_closed_to_other_users_is_reported(
    server: ScriptedServer, start_there: StartAgent, node: Node
) -> None:
    (node.directory / "closed").mkdir()
    shutil.chown(node.directory / "closed", node.pilot)
    (node.directory / "closed").chmod(0o700)
    (node.directory / "work").mkdir()
    shutil.chown(node.directory / "work", node.pilot)
    (node.directory / "closed" / "agent.pyz").touch()
    server.add_job("true")

    agent = start_there(directory=node.directory / "closed")

    assert agent.wait() == 0, agent.log
    assert _ended(server)[0] == 222
    assert "Permission denied" in str(_ended(server)[1])


# ---- accounts


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return users that every system has, and as which no test runs."""
    names = [each.pw_name for each in pwd.getpwall() if each.pw_uid not in {0, os.getuid()}][:3]
    assert len(names) == 3
    return names


def test_two_owners_never_share_an_account_while_there_is_a_free_one(tmp_path: Path, three: list[str]) -> None:
    claims = [accounts.claim(three, owner=owner, directory=tmp_path / "locks") for owner in ("alice", "bob", "carol")]
    assert {claim.account.name for claim in claims} == set(three)

    again = accounts.claim(three, owner="bob", directory=tmp_path / "locks")
    assert again.account == claims[1].account
    one_too_many = accounts.claim(three, owner="dave", directory=tmp_path / "locks")
    assert one_too_many.account.name in three
    for claim in (*claims, again, one_too_many):
        claim.give_back()

    assert accounts.claim(three, owner="dave", directory=tmp_path / "locks").account == one_too_many.account


def test_an_owner_has_the_same_account_wherever_it_is_free(tmp_path: Path, three: list[str]) -> None:
    found = set()
    for number, names in enumerate((three, three[::-1])):
        claim = accounts.claim(names, owner="alice", directory=tmp_path / str(number))
        found.add(claim.account.name)
    assert len(found) == 1


def test_account_locks_of_another_user_are_not_trusted(tmp_path: Path, three: list[str]) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "locks").symlink_to("real")

    with pytest.raises(NoAccountError):
        accounts.claim(three, owner="alice", directory=tmp_path / "locks")


def test_a_user_of_the_node_cannot_make_two_pilots_lock_apart(
    tmp_path: Path, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes the common directory first; each slot has a directory of its own for temporary files."""
    monkeypatch.setattr(shared_directories, "TMP", tmp_path)
    locks = tmp_path / f"wms-accounts-{os.getuid()}"
    locks.mkdir()
    os.chown(locks, pwd.getpwnam(three[0]).pw_uid, -1)
    with pytest.raises(NoAccountError, match="no account could be locked"):
        accounts.claim(three, owner="alice")
    locks.rmdir()
    first, second = (accounts.claim(three, owner=owner) for owner in ("alice", "bob"))
    assert first.account != second.account


# ---- without another user


def test_an_environment_of_its_own_names_the_owner(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"]["identity"] = "environment"
    server.add_job(*_shell('echo "$USER $LOGNAME"; test "$HOME" = "$PWD" && test -d "$TMPDIR"'))
    server.waiting[0]["environment"] = {"USER": "forged"}

    assert start().wait() == 0

    assert server.lease.files()["std.out"] == "alice alice\n"
    assert _ended(server) == (0, None)


def test_a_payload_of_the_same_user_cannot_read_the_pilot_memory(server: ScriptedServer, node: Node) -> None:
    server.configuration["place"]["identity"] = "none"
    probe = (
        f"for p in $(ps -u {node.pilot} -o pid=,comm= | grep python | cut -c1-8); do "
        "for f in environ mem maps; do cat /proc/$p/$f && echo READ $f; done; ls /proc/$p/fd && echo READ fd; done; "
        "id -un"
    )
    server.add_job(*_shell(f"({probe}) 2>&1"))
    with RunningAgent(
        server.url, node.directory, packed=True, python=PYTHON, user=node.pilot,
    ) as agent:  # fmt: skip
        assert agent.wait() == 0, agent.log

    said = server.lease.files()["std.out"]
    # Of the pilot and what is above the payload it sees the first process of its own namespace alone.
    assert said.count("Permission denied") >= 4
    assert "READ" not in said
    assert said.endswith(f"{node.pilot}\n")
