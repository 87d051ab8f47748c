"""Jobs of a pilot that leaves: drained by a file, a command or the server, or stopped by a signal."""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.pilot.drain import DrainRequest
from tests.agent.conftest import StartAgent
from tests.agent.running import ROOT, RunningAgent, ancestor_below, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer
from tests.agent.test_parallel import finished, node_with, running, until_there
from tests.pace import within

# ---- drained


@pytest.mark.parametrize("elsewhere", [False, True])
def test_with_a_drain_file_running_jobs_end_and_no_other_begins(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, elsewhere: bool
) -> None:
    node_with(server, processors=3)
    server.configuration["match_retry_after_s"] = 0.1
    for _ in range(2):
        server.add_job("/bin/sh", until_there(tmp_path / "go"))
    file = tmp_path / "stop-here" if elsewhere else tmp_path / "work" / "drain"
    agent = start(*(["--drain-file", str(file)] if elsewhere else []))
    running(server, 2)
    file.touch()
    agent.stop(signal.SIGCHLD)  # the pilot looks up now, not only after its next few seconds
    beats = len(server.leases[0].heartbeats)
    server.wait_until(lambda: len(server.leases[0].heartbeats) > beats + 3)
    server.add_job("true")
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [0, 0]
    assert len(server.waiting) == 1
    assert server.leaving == [f"drained by the file {file}"]


def test_a_pilot_that_finds_a_drain_file_takes_no_job(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("true")
    (tmp_path / "drain").touch()

    assert start("--drain-file", str(tmp_path / "drain")).wait() == 0

    assert server.leases == []
    assert len(server.leaving) == 1


@pytest.mark.root
def test_a_stranger_cannot_drain_a_pilot_in_a_directory_that_is_everybodys(tmp_path: Path) -> None:
    file = tmp_path / "drain"
    request = DrainRequest(file, WakeupPipe())
    assert request.reason() is None
    file.touch()
    assert request.reason() == f"by the file {file}"
    os.chown(file, 65534, 65534)
    assert request.reason() is None


def test_a_drain_command_applies_to_the_whole_pilot(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=3)
    server.configuration["match_retry_after_s"] = 100
    for _ in range(2):
        server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start()
    running(server, 2)
    server.order("drain", id=7)
    server.wait_until(lambda: 7 in server.lease.acknowledged)
    server.add_job("true")
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [0, 0]
    assert len(server.waiting) == 1
    assert server.leaving == ["drained by order"]
    assert "command.unknown" not in agent.log


def test_a_batch_system_that_warns_of_the_end_drains(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    server.add_job("true")
    agent = start()
    running(server, 1)
    agent.stop(signal.SIGUSR1)
    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert finished(server.leases) == [0]
    assert server.leaving == ["drained by order"]


@pytest.mark.parametrize(
    ("code", "exit_code", "reason"),
    [
        ("pilot_drained", 0, "drained by the server: As the test says."),
        ("black_hole", 1, "refused by the server: 403 black_hole: As the test says."),
        ("pilot_not_welcome", 1, "refused by the server: 403 pilot_not_welcome: As the test says."),
    ],
)
def test_a_refused_match_lets_running_jobs_end(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, code: str, exit_code: int, reason: str
) -> None:
    node_with(server, processors=2)
    server.script("/matches/", None, (403, {"code": code, "detail": "As the test says."}))
    server.configuration["match_retry_after_s"] = 0.1
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start()
    server.wait_until(lambda: len(server.requests_to("/matches/")) == 2)
    running(server, 1)
    (tmp_path / "go").touch()

    assert agent.wait() == exit_code
    assert finished(server.leases) == [0]
    assert len(server.requests_to("/matches/")) == 2
    assert server.leaving == [reason]


def test_a_busy_server_is_retried_and_not_counted_as_unreachable(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["match_retry_after_s"] = 0.3
    busy = (503, {"code": "throttle_busy", "detail": "As the test says."})
    server.script("/matches/", *[busy] * 6)
    server.add_job("true")
    agent = start("--patience-s", "1", "--max-idle-s", "60", "--max-jobs", "1")
    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [0]
    assert len(server.requests_to("/matches/")) == 7
    assert "match.busy" in agent.log


# ---- stopped


def test_after_sigterm_a_job_may_end_by_itself(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start("--stop-within-s", "600")
    running(server, 1)
    agent.stop()
    beats = len(server.lease.heartbeats)
    server.wait_until(lambda: len(server.lease.heartbeats) > beats + 2)
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [0]
    assert server.lease.output is not None
    assert server.leaving == ["stopped by SIGTERM"]
    assert list(agent.work.iterdir()) == []


def test_after_sigterm_a_job_that_does_not_end_is_handed_back(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    agent = start("--grace-s", "0.5")
    running(server, 1)
    agent.stop()

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [222]
    assert processes_with(mark) == []
    assert server.leaving == ["stopped by SIGTERM"]


@pytest.mark.parametrize(
    ("answer", "payload_first"),
    [("exec sleep {mark}", True), ("exec sleep {mark}", False), ("trap 'exit 7' TERM; sleep {mark} & wait", False)],
)
def test_a_payload_that_a_batch_system_signals_together_with_its_pilot_is_handed_back(
    server: ScriptedServer, start: StartAgent, answer: str, payload_first: bool
) -> None:
    mark = marker()
    server.add_job("/bin/sh", f"-c {shlex.quote(answer.format(mark=mark))}")
    agent = start()
    running(server, 1)
    payload = sorted(processes_with(mark))
    for pid in [*payload, agent.process.pid] if payload_first else [agent.process.pid, *payload]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [222]
    assert [lease.finished and lease.finished["minor_status"] for lease in server.leases] == ["Pilot was stopped"]
    assert processes_with(mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_payload_killed_by_another_user_has_failed(
    server: ScriptedServer, start: StartAgent, number: signal.Signals
) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    start()
    running(server, 1)
    server.poll(lambda: processes_with(mark))
    for pid in processes_with(mark):
        os.kill(pid, number)
    server.wait_until(lambda: server.lease.finished is not None)
    assert finished(server.leases) == [128 + number]


def test_a_pilot_is_stopped_in_time_also_without_a_server(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    agent = start("--stop-within-s", "2", "--grace-s", "0.5")
    running(server, 1)
    server.script("/heartbeat/", *[503] * 1000)
    server.script("/finish/", *[503] * 1000)
    server.script("/report/", *[503] * 1000)
    agent.stop()

    assert agent.wait() == 0
    assert processes_with(mark) == []
    assert server.lease.finished is None


def test_a_process_that_does_not_end_in_time_is_killed_and_its_job_handed_back(
    server: ScriptedServer, start: StartAgent
) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    agent = start("--stop-within-s", "1", "--grace-s", "0.5")
    running(server, 1)
    (worker,) = (
        int(pid) for pid in Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text().split()
    )
    os.kill(worker, signal.SIGSTOP)
    agent.stop()

    assert agent.wait() == 0, agent.log
    assert processes_with(mark) == []
    assert finished(server.leases) == [222]


def test_a_job_that_was_given_while_the_signal_came_is_handed_back_at_once(
    server: ScriptedServer, start: StartAgent
) -> None:
    agents: list[RunningAgent] = []

    def stop_it() -> None:
        server.add_job("true")
        agents[0].stop()  # before the answer

    server.script("/matches/", None, stop_it)
    server.configuration["match_retry_after_s"] = 0.5
    agents.append(start("--max-idle-s", "60"))

    assert agents[0].wait() == 0, agents[0].log
    assert server.lease.statuses == []
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert [lease.finished and lease.finished["minor_status"] for lease in server.leases] == ["Pilot was stopped"]


# ---- the agent in trouble


def _agent_with(work: str, server: ScriptedServer, directory: Path) -> "subprocess.CompletedProcess[str]":
    """Run an agent whose job processes call *work* instead of carrying out their jobs."""
    program = (
        "import sys; from pilots.agent import __main__; from pilots.agent.pilot import job_task; {}; "
        "job_task.run_task = work; sys.exit(__main__.main())"
    )
    options = ["--server", server.url, "--token-file", "-", "--work-dir", str(directory), "--max-idle-s", "0"]
    return subprocess.run(
        [sys.executable, "-c", program.format(work), *options],
        input=PILOT_TOKEN, cwd=ROOT, capture_output=True, text=True, timeout=within(60), check=False,
    )  # fmt: skip


def test_an_internal_error_of_the_agent_hands_the_job_back_and_ends_it(server: ScriptedServer, tmp_path: Path) -> None:
    for _ in range(2):
        server.add_job("true")

    # The fault is in the work, not in what ends the rest of a process that died.
    faulty = "lambda task, **more: (task.died_before or task.no_such_thing) and run_task(task, **more)"
    work = f"run_task = job_task.run_task; work = {faulty}"
    ended = _agent_with(work, server, tmp_path)

    assert ended.returncode == 1
    assert ended.stderr.count("agent.fault") == 1
    assert finished(server.leases) == [222]
    assert server.leaving == ["fault of the agent with job 1"]


def test_a_node_without_room_for_a_process_gives_the_job_back(server: ScriptedServer, tmp_path: Path) -> None:
    server.add_job("true")
    no_fork = "import os; os.fork = lambda: (_ for _ in ()).throw(BlockingIOError(11, 'Try again')); work = None"

    ended = _agent_with(no_fork, server, tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == "The pilot's process for the job could not be started"


# ---- a server, or a node, in trouble


def test_an_outage_longer_than_patience_s_loses_no_running_job(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    node_with(server, processors=2)
    server.configuration |= {"match_retry_after_s": 0.1, "lease_s": 60, "lease_grace_s": 1}
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start("--patience-s", "0.3")
    running(server, 1)
    with server.changed:
        server.away = True
        refused = len(server.seen)
    server.wait_until(lambda: len([seen for seen in server.seen[refused:] if seen.path.endswith("/matches/")]) >= 3)
    (tmp_path / "go").touch()
    server.wait_until(lambda: server.requests_to("/sandboxes/"))
    with server.changed:
        server.away = False

    agent.wait()
    assert finished(server.leases) == [0]
    assert server.lease.output is not None
    assert "payload.stopping" not in agent.log


def test_a_node_that_becomes_unfit_finishes_its_jobs_and_leaves(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    node_with(server, processors=2)
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start()
    running(server, 1)
    server.configuration["watchdog"]["min_free_disk_mb"] = 10**12
    server.configuration["match_retry_after_s"] = 0.1
    mark = marker()
    server.add_job("sleep", mark)
    server.poll(lambda: processes_with(mark))
    # A job's process that dies has the node looked at again.
    os.kill(ancestor_below(agent.process.pid, processes_with(mark)[0]), signal.SIGKILL)
    server.wait_until(lambda: len(server.node_reports) >= 2)
    asked = len(server.requests_to("/matches/"))
    beats = len(server.leases[0].heartbeats)
    server.wait_until(lambda: len(server.leases[0].heartbeats) > beats + 3)
    (tmp_path / "go").touch()

    assert agent.wait() == 1, agent.log
    assert finished(server.leases) == [0, 222]
    assert len(server.requests_to("/matches/")) == asked
    _, *busy, idle = server.node_reports
    for report in busy:
        assert report["ok"] is True  # else the server would take the leases from the pilot
        assert [check["name"] for check in report["checks"] if not check["ok"]] == ["disk"]
    assert idle["ok"] is False


def test_the_pilot_renews_its_token_while_jobs_run(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    registered = {
        "pilot": 7,
        "token": "wmsp_first",
        "expires_at": (datetime.now(UTC) + timedelta(seconds=8)).isoformat(),
    }
    server.script("/register/", (201, registered))
    server.renewals = {"pilot": "wmsp_second"}
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    place = ["--vo", "lhcb", "--site", "LCG.Test.org", "--ce", "ce1", "--queue", "grid"]
    agent = start(*place, "--max-jobs", "1", token="wmss_secret")
    server.wait_until(lambda: len(server.node_reports) >= 3)
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert [seen.token for seen in server.requests_to("/report/")][:2] == ["wmsp_first", "wmsp_second"]
    assert finished(server.leases) == [0]
