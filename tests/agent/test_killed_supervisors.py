"""Supervisors killed by SIGKILL: their payloads end too, so that no job runs twice at the same time."""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pilots.agent.base import shared_directories
from pilots.agent.job import payload_records, user_helper
from pilots.agent.job.payload_records import PayloadRecord
from pilots.agent.node import cgroups
from pilots.backends import host
from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.running import RunningAgent, ancestor_below, marker, processes_with
from tests.agent.scripted import ScriptedServer

#: Every process ignores SIGTERM; one is double-forked into a session of its own, and one has an empty environment.
TENACIOUS = (
    "trap '' TERM; "
    "setsid sh -c 'trap \"\" TERM; (sleep {m}; sleep {m}) & sleep 0' & "
    "(env -i setsid sleep {m} &) ; echo started; sleep {m}; sleep {m}"
)


def tenacious(mark: str) -> str:
    return f"-c {shlex.quote(TENACIOUS.format(m=mark))}"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def begun(server: ScriptedServer, agent: RunningAgent, mark: str) -> tuple[int, int]:
    """Wait until the payload runs and was checked once; return the pilot's process for the job, and the supervisor."""
    server.wait_until(
        lambda: server.leases and any("started" in beat.get("std_output", "") for beat in server.lease.heartbeats)
    )
    server.poll(lambda: len(processes_with(mark)) >= 4)
    # Two more heartbeats: the watchdog, which looks as often, has seen all of these processes.
    beats = len(server.lease.heartbeats)
    server.wait_until(lambda: len(server.lease.heartbeats) >= beats + 3)
    worker = ancestor_below(agent.process.pid, processes_with(mark)[0])
    (supervisor,) = children_of(worker)
    return worker, supervisor


def kill_at_once(*pids: int) -> None:
    """Kill all the processes together, so that none can react to another's end."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def forbid_processes(pid: int) -> None:
    """Set the process's limit of child processes to zero; only the process's own user may do so."""
    program = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_NPROC, (0, 0))"
    numbers = dict(
        line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "id:\t" in line
    )
    user, group = (int(numbers[name].split()[0]) for name in ("Uid", "Gid"))
    subprocess.run([PYTHON, "-c", program, str(pid)], check=True, user=user, group=group)


def test_a_killed_supervisor_is_reported_after_its_payload_ended(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    agent = start()
    _, supervisor = begun(server, agent, mark)

    os.kill(supervisor, signal.SIGKILL)
    server.wait_until(lambda: server.lease.finished)

    assert processes_with(mark) == []
    assert agent.wait() == 0


def test_a_killed_supervisor_and_a_killed_agent_leave_no_payload(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    agent = start()
    worker, supervisor = begun(server, agent, mark)

    os.kill(worker, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    agent.stop(signal.SIGKILL)
    agent.process.wait()
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGCONT)

    server.poll(lambda: not processes_with(mark) and not Path(f"/proc/{worker}").exists())
    assert server.lease.finished is None


def test_a_job_is_handed_back_only_after_all_its_processes_ended(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    agent = start()
    worker, supervisor = begun(server, agent, mark)

    kill_at_once(worker, supervisor)
    server.wait_until(lambda: server.lease.finished)

    assert processes_with(mark) == []
    assert server.lease.finished is not None
    assert (server.lease.finished["exit_code"], server.lease.finished["fault"]) == (222, "supervisor")
    assert agent.wait() == 0
    assert list(agent.work.iterdir()) == []


def test_the_process_that_ends_a_payload_is_replaced_when_it_is_killed_too(
    server: ScriptedServer, start: StartAgent
) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    # The hand-back waits, so that the process that is to make it can be found.
    server.script("/finish/", *[503] * 4)
    agent = start()
    worker, supervisor = begun(server, agent, mark)

    kill_at_once(worker, supervisor)
    server.wait_until(lambda: server.requests_to("/finish/"))
    for successor in children_of(agent.process.pid):
        os.kill(successor, signal.SIGKILL)

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert processes_with(mark) == []


def test_a_payload_is_ended_by_the_agent_itself_where_no_process_can_be_started(
    server: ScriptedServer, start_plainly: StartAgent
) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    agent = start_plainly()
    worker, supervisor = begun(server, agent, mark)
    forbid_processes(agent.process.pid)

    kill_at_once(worker, supervisor)
    server.wait_until(lambda: server.lease.finished)

    assert processes_with(mark) == []
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert agent.wait() == 0, agent.log
    assert list(agent.work.iterdir()) == []


def test_the_next_pilot_ends_a_leftover_payload_before_matching(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    mark = marker()
    server.add_job("/bin/sh", tenacious(mark))
    agent = start()
    worker, supervisor = begun(server, agent, mark)
    kill_at_once(agent.process.pid, worker, supervisor)
    agent.process.wait()

    # The second execution counts the processes of the first.
    pattern = f"9[{mark[1]}]{mark[2:]}"
    server.add_job("/bin/sh", f"-c {shlex.quote(f'pgrep -c -f {shlex.quote(pattern)}; exit 0')}")
    elsewhere = tmp_path / "other pilot"
    elsewhere.mkdir()
    with RunningAgent(server.url, elsewhere) as later:
        assert later.wait() == 0, later.log

    assert server.leases[1].files()["std.out"] == "0\n"
    assert processes_with(mark) == []


def test_a_plain_host_reports_a_pilot_as_ended_after_its_payload(tmp_path: Path) -> None:
    mark, stamp = marker(), "0" * 32
    own = tmp_path / stamp
    (own / "work").mkdir(parents=True)
    record = _orphan(mark, work_directory=own / "work")
    ended = subprocess.Popen(["true"])
    ended.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (own / host.PROCESS).write_text(f"{os.uname().nodename} {boot} {ended.pid} 1 {ended.pid} 1")
    (own / host.EXIT_CODE).write_text("137")

    first = host.look(str(tmp_path), [stamp])[stamp]
    found = processes_with(mark)

    assert (first["presence"], bool(found)) in {("running", True), ("running", False), ("ended", False)}
    _poll(lambda: host.look(str(tmp_path), [stamp])[stamp]["presence"] == "ended")
    assert processes_with(mark) == []
    record.unlink(missing_ok=True)


# ---- the records


def test_a_reused_process_id_is_not_killed(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", marker()])
    started = user_helper.started_of(stranger.pid)
    assert started is not None
    file = _record_file(tmp_path, processes=[(stranger.pid, started - 1)])
    try:
        assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0
        assert stranger.poll() is None
        assert not file.exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_payload_with_a_living_supervisor_is_not_ended(tmp_path: Path) -> None:
    payload = subprocess.Popen(["sleep", marker()])
    started = user_helper.started_of(payload.pid)
    try:
        with PayloadRecord("0f1e", account="", work_directory=tmp_path, directory=tmp_path) as record:
            record.note([(payload.pid, started or 0)])
            assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0
            assert payload.poll() is None
    finally:
        payload.kill()
        payload.wait()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"version": 1}', json.dumps({"version": 1, "boot": "another", "namespace": "", "marker": "x=y"})],
)
def test_payload_records_of_another_node_end_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "0f1e.json").write_text(content)
    assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0


def test_a_truncated_record_line_loses_no_other(tmp_path: Path) -> None:
    payload = subprocess.Popen(["sleep", marker()], start_new_session=True)
    file = _record_file(tmp_path, processes=[(payload.pid, user_helper.started_of(payload.pid) or 0)])
    with file.open("a") as opened:
        opened.write("12")
    assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0
    assert payload.wait() == -signal.SIGKILL


def test_a_process_without_its_environment_is_found_by_its_session(tmp_path: Path) -> None:
    mark = marker()
    script = f"sh -c 'exec env -i sleep {mark}' & exec sleep {mark}"
    shell = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, env={"PATH": os.defpath})
    try:
        _poll(lambda: len(processes_with(mark)) == 2)
        other = next(pid for pid in processes_with(mark) if pid != shell.pid)
        _record_file(tmp_path, processes=[(other, user_helper.started_of(other) or 0)])
        assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0
        assert shell.wait() == -signal.SIGKILL
        assert processes_with(mark) == []
    finally:
        shell.kill()


def test_all_processes_of_a_control_group_are_ended(tmp_path: Path) -> None:
    group = cgroups.make_group(f"wms-test-{os.getpid()}")
    if group is None:
        pytest.skip("there is no control group of version 2 that this user may divide")
    mark = marker()
    escaping = f"env -i setsid sh -c 'sleep {mark} & sleep {mark}' & exec sleep {mark}"
    # It waits until it is in the group.
    shell = subprocess.Popen(["/bin/sh", "-c", f"read go; {escaping}"], stdin=subprocess.PIPE)
    assert shell.stdin is not None
    assert cgroups.add_to(group, shell.pid)
    shell.stdin.write(b"go\n")
    shell.stdin.close()
    _poll(lambda: len(processes_with(mark)) >= 3)
    _record_file(tmp_path, processes=[], cgroup=str(group))

    assert payload_records.end_all(stopped=lambda: None, directory=tmp_path) == 0

    assert shell.wait() == -signal.SIGKILL
    assert processes_with(mark) == []
    assert not group.exists()


@pytest.mark.root
def test_payload_records_of_another_user_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, own = marker(), tmp_path / "pilot"
    monkeypatch.setattr(shared_directories, "TMP", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    record = _orphan(mark, work_directory=own / "work")
    monkeypatch.setattr(host, "_PAYLOADS", str(record.parent))
    os.chown(record.parent, 65534, 65534)
    try:
        assert payload_records.end_all(stopped=lambda: None) == 0
        assert not host._payload_lives(own)
        assert len(processes_with(mark)) == 2
        # As root's own they would be obeyed.
        os.chown(record.parent, 0, 0)
        assert host._payload_lives(own)
        _poll(lambda: not processes_with(mark))
    finally:
        for pid in processes_with(mark):
            os.kill(pid, signal.SIGKILL)


def _record_file(directory: Path, *, processes: list[tuple[int, int]], cgroup: str = "") -> Path:
    """Write the record of a payload whose supervisors have ended."""
    with PayloadRecord("0f1e", account="", work_directory=directory, directory=directory, keep=True) as record:
        if cgroup:
            record.note_group(Path(cgroup))
        record.note(processes)
    (file,) = directory.glob("*.json")
    return file


def _orphan(mark: str, *, work_directory: Path) -> Path:
    """Start a payload without a supervisor, with its record where all pilots of the node look; return the record."""
    match_id = f"test-{os.getpid()}-{mark}"
    environment = {"PATH": os.defpath, "WMS_MATCH_ID": match_id}
    shell = subprocess.Popen(["/bin/sh", "-c", f"(sleep {mark} &); sleep {mark} & exit 0"], env=environment)
    with PayloadRecord(match_id, account="", work_directory=work_directory, keep=True) as record:
        record.note([])
        file = record.file
    shell.wait()
    assert file is not None
    return file


def _poll(condition: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.02)
