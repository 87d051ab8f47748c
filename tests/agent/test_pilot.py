"""The pilot beside its jobs: credentials, configuration, check of the node, offers, waiting, exit."""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pilots.agent_package import agent_package
from tests.agent.conftest import StartAgent
from tests.agent.running import INTERPRETERS, ROOT, WITHOUT_NAMESPACES
from tests.agent.scripted import DROP, LOSE, PILOT_TOKEN, ScriptedServer
from tests.pace import within
from wms.wire.version import __version__


@pytest.mark.parametrize("python", INTERPRETERS)
def test_every_interpreter_of_this_machine_runs_a_whole_job(
    server: ScriptedServer, start: StartAgent, python: str
) -> None:
    sandbox = server.add_sandbox(b"#!/bin/sh\necho ran; sleep 0.5\n", file_name="run.sh")
    server.add_job("run.sh", input_sandboxes=[sandbox])

    agent = start(python=python, packed=True)

    assert agent.wait() == 0, agent.log
    assert "Traceback" not in agent.log
    assert "Warning" not in agent.log
    assert server.lease.files()["std.out"] == "ran\n"
    assert server.lease.heartbeats


def test_the_node_report_precedes_the_first_job_request(server: ScriptedServer, start: StartAgent) -> None:
    assert start(environment={"SLURM_JOB_ID": "4711"}).wait() == 0

    names = [seen.path.split("/")[-2] for seen in server.seen]
    assert names == ["config", "report", "matches", "report"]
    (report,) = server.node_reports
    assert report["ok"] is True
    assert report["batch_id"] == "4711"
    assert {check["name"] for check in report["checks"]} == {
        *("work_directory", "disk", "memory", "clock", "processors", "isolation", "container")
    }
    assert len(json.dumps(report["node"])) < 16 * 1024
    assert all(seen.user_agent.startswith("wms-pilot-agent/") for seen in server.seen)


@pytest.mark.parametrize("flaw", ["directory", "disk"])
def test_an_unfit_node_is_reported_and_touches_no_job(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, flaw: str
) -> None:
    server.add_job("true")
    options: list[str] = []
    if flaw == "disk":
        server.configuration["watchdog"]["min_free_disk_mb"] = 10**12
    else:
        options = ["--work-dir", str(tmp_path / "absent")]

    agent = start(*options)

    assert agent.wait() == 1
    (report,) = server.node_reports
    assert report["ok"] is False
    assert next(check["name"] for check in report["checks"] if not check["ok"]) in {"work_directory", "disk"}
    assert server.leases == []


@pytest.mark.parametrize(("protocol", "needed"), [(2, "a newer"), (0, "an older")])
def test_another_protocol_is_reported_and_ends_the_pilot(
    server: ScriptedServer, start: StartAgent, protocol: int, needed: str
) -> None:
    # What else a server of another protocol says may be of any form.
    server.configuration = {"protocol": protocol, "heartbeat_s": {"at_most": 30}, "match_retry_after_s": 1}
    server.add_job("true")

    assert start().wait() == 1

    assert server.leaving == [f"the server speaks protocol {protocol}, this agent 1; {needed} agent is needed"]
    assert server.failed
    assert not server.requests_to("/matches/")
    assert not server.node_reports


def test_a_pilot_that_ran_jobs_does_not_report_failure(server: ScriptedServer, start: StartAgent) -> None:
    assert start().wait() == 0
    assert server.leaving
    assert not server.failed


def test_the_offer_has_the_values_of_the_queue(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"] |= {"tags": ["GPU"], "required_tags": ["GPU"], "processors": 4}
    server.configuration["place"]["cpu_time_s"] = 5000

    assert start().wait() == 0

    (asked,) = server.requests_to("/matches/")
    request_id = asked.body.pop("request_id")
    assert len(request_id) == 36
    assert asked.body == {
        "cpu_time_s": 5000,
        "processors": 4,
        "max_jobs": 4,
        "memory_mb": 2000,
        "gpus": 0,
        "disk_mb": 0,
        "container": False,
        # Of the node; the server compares it with that of the queue (ADR 28).
        "platforms": [server.node_reports[0]["node"]["platform"]],
        "tags": ["GPU"],
        "required_tags": ["GPU"],
    }


def test_a_pilot_made_by_hand_offers_what_the_node_has(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"] = None

    assert start().wait() == 0

    (asked,) = server.requests_to("/matches/")
    assert asked.body["cpu_time_s"] >= 300_000
    assert asked.body["processors"] == 1
    assert asked.body["memory_mb"] > 0
    assert asked.body["platforms"] == [server.node_reports[0]["node"]["platform"]]


def test_a_configured_platform_is_offered_and_reported(server: ScriptedServer, start: StartAgent) -> None:
    assert start("--platform", "el9", "--platform", "x86_64-el8").wait() == 0
    (asked,) = server.requests_to("/matches/")
    assert asked.body["platforms"] == ["el9", "x86_64-el8"]
    assert server.node_reports[0]["node"]["platform"] == "el9"


def test_a_slot_whose_time_is_over_takes_no_more_jobs(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"]["cpu_time_s"] = 16
    server.add_job("sleep", "6.1")
    server.add_job("true")

    assert start().wait() == 0

    assert len(server.leases) == 1
    assert server.leaving == ["out of time"]


def test_a_pilot_leaves_after_max_jobs(server: ScriptedServer, start: StartAgent) -> None:
    for _ in range(3):
        server.add_job("true")

    assert start("--max-jobs", "2").wait() == 0

    assert len(server.leases) == 2
    assert server.leaving == ["2 jobs done, as many as wanted"]


def test_an_idle_pilot_waits_for_retry_after_and_then_leaves(server: ScriptedServer, start: StartAgent) -> None:
    agent = start("--max-idle-s", "10")
    assert agent.wait() == 0

    asked = server.requests_to("/matches/")
    gaps = [after.at - before.at for before, after in pairwise(asked)]
    assert 4 <= len(gaps) <= 10  # each 1 s, up to a half longer: waits that the server names do not grow
    assert all(gap >= 1 for gap in gaps)
    assert agent.log.count("match.nothing") == 1
    assert len({seen.body["request_id"] for seen in asked}) == len(asked)
    assert server.leaving == ["no job for me"]


def test_an_idle_pilot_that_is_stopped_leaves_at_once(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["match_retry_after_s"] = 100
    agent = start("--max-idle-s", "1000")
    server.wait_until(lambda: server.requests_to("/matches/"))

    agent.stop()

    assert agent.wait() == 0
    assert server.leaving == ["stopped by SIGTERM"]


def test_a_lost_answer_loses_no_job(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("true")
    server.script("/config/", 500, DROP)
    server.script("/report/", 503)
    server.script("/matches/", DROP, LOSE, 500)

    assert start().wait() == 0

    (lease,) = server.leases
    assert lease.finished is not None
    asked = server.requests_to("/matches/")
    assert len({seen.body["request_id"] for seen in asked}) == 2  # the job, and then nothing


def test_an_unreachable_server_has_its_own_exit_code(start: StartAgent, server: ScriptedServer) -> None:
    server.script("/config/", *[500] * 20)

    assert start("--patience-s", "0.5").wait() == 3


def test_a_refused_pilot_ends_with_the_reason(server: ScriptedServer, start: StartAgent) -> None:
    server.script("/matches/", (403, {"code": "pilot_revoked", "detail": "The credentials were revoked; leave."}))

    agent = start()

    assert agent.wait() == 1
    assert "pilot_revoked" in agent.log


def test_a_revoked_pilot_stops_its_payload_and_leaves(server: ScriptedServer, start: StartAgent) -> None:
    revoked = (403, {"code": "pilot_revoked", "detail": "The credentials were revoked; leave."})
    server.add_job("sleep", "987654")
    agent = start()
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    server.script("/matches/", revoked)
    server.script("/heartbeat/", revoked)

    assert agent.wait() == 1

    assert server.lease.finished is None


# ---- credentials


def test_a_registration_secret_is_exchanged_for_a_token(server: ScriptedServer, start: StartAgent) -> None:
    place = ["--vo", "lhcb", "--site", "LCG.Test.org", "--ce", "ce1", "--queue", "grid", "--stamp", "s-1"]

    agent = start(*place, token="wmss_secret")

    assert agent.wait() == 0
    first, *others = server.seen
    assert first.path == "/api/v1/pilots/register/"
    assert first.token == "wmss_secret"
    assert first.body.pop("host_name")
    assert first.body == {"vo": "lhcb", "site": "LCG.Test.org", "ce": "ce1", "queue": "grid", "stamp": "s-1"}
    assert {seen.token for seen in others} == {PILOT_TOKEN}
    assert "wmss_secret" not in agent.log


def test_registration_requires_a_place(server: ScriptedServer, start: StartAgent) -> None:
    agent = start("--vo", "lhcb", token="wmss_secret")

    assert agent.wait() == 2
    assert agent.log == "To register, the pilot needs its place: give --site, --ce, --queue too.\n"
    assert server.seen == []


def test_renewed_tokens_replace_those_that_were_used(server: ScriptedServer, start: StartAgent) -> None:
    server.renewals = {"pilot": "wmsp_renewed", "job": "wmsj_renewed"}
    server.add_job("sleep", "1")

    assert start().wait() == 0

    on_lease = [seen.token for seen in server.seen if server.lease.match_id in seen.path]
    assert set(on_lease[-3:]) <= {"wmsp_renewed", "wmsj_renewed"}
    assert server.requests_to("/sandboxes/")[-1].token == "wmsj_renewed"
    assert server.seen[-1].token == "wmsp_renewed"


def test_when_one_token_has_expired_reports_go_with_the_other(server: ScriptedServer, start: StartAgent) -> None:
    expired = (401, {"code": "invalid_token", "detail": "The pilot token has expired."})
    server.add_job("true")
    server.script("/status/", expired, None, expired)
    server.script("/finish/", expired)

    assert start().wait() == 0

    assert server.lease.statuses == ["Running", "Completing"]
    assert server.lease.finished is not None


def _run(*options: str, **more: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pilots.agent", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=within(60), check=False, **more)  # type: ignore[call-overload, no-any-return]


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("wmsp_x\n")
    file.chmod(0o640)

    ended = _run("--server", "http://127.0.0.1:9", "--token-file", str(file))

    assert ended.returncode == 2
    assert ended.stderr == f"Others can read the token file {file}: make it yours alone with chmod 600 {file}\n"


@pytest.mark.parametrize("content", ["", "\n", "two words\n", "caf\u00e9\n", "\x00\n"])
def test_a_token_file_without_a_token_is_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(0o600)

    ended = _run("--server", "http://127.0.0.1:9", "--token-file", str(file))

    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1


def test_the_token_file_can_be_removed_once_it_was_read(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{PILOT_TOKEN}\n")
    file.chmod(0o600)

    options = ["--server", server.url, "--work-dir", str(tmp_path), "--max-idle-s", "0", "--remove-token-file"]
    ended = _run(*options, "--token-file", str(file))

    assert ended.returncode == 0, ended.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--server", "http://x"],
        ["--server", "ftp://x", "--token-file", "-"],
        ["--server", "http://user:secret@x", "--token-file", "-"],
        ["--server", "http://x:99999", "--token-file", "-"],
        ["--server", "http://x", "--token-file", "-", "--max-jobs", "0"],
        ["--server", "http://x", "--token-file", "-", "--max-idle-s", "nan"],
        ["--server", "http://x", "--token", "wmsp_x"],
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(options: list[str]) -> None:
    ended = _run(*options)

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_the_token_is_not_sent_in_clear_to_another_machine() -> None:
    ended = _run("--server", "http://192.0.2.1", "--token-file", "-")
    assert ended.returncode == 2
    assert "http://192.0.2.1 is not encrypted" in ended.stderr
    assert "--insecure" in ended.stderr


@pytest.mark.parametrize("python", INTERPRETERS)
def test_the_version_is_printed(tmp_path: Path, python: str) -> None:
    program = tmp_path / "agent.pyz"
    program.write_bytes(agent_package().content)

    command = [python, str(program), "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=within(60), check=True)

    assert ended.stdout == f"wms pilot agent {__version__}, protocol 1\n"


SPY = """
import os, re
pid, tried = os.getppid(), 0
while pid > 1:
    stat = open(f"/proc/{pid}/stat").read()
    for name in ("environ", "mem", "fd", "maps"):
        path = f"/proc/{pid}/{name}"
        try:
            os.listdir(path) if name == "fd" else open(path, "rb").read(1)
        except OSError as error:
            print("refused", name)
        else:
            print("READ", name, open(f"/proc/{pid}/cmdline").read().replace("\\0", " "))
        tried += 1
    if "agent.pyz" in open(f"/proc/{pid}/cmdline").read():
        break
    pid = int(stat.rpartition(")")[2].split()[1])
"""


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root can read all processes")
def test_a_payload_of_the_same_user_cannot_read_the_pilot(
    server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("no interpreter that every user can run")
    # In namespaces of its own it would not even see the pilot; without root it has them where the kernel allows it.
    as_user = [*WITHOUT_NAMESPACES["enter"]] if os.geteuid() == 0 else []
    directory = Path("/tmp", f"wms-spy-{os.getpid()}")
    directory.mkdir()
    try:
        program = directory / "agent.pyz"
        program.write_bytes(agent_package().content)
        (directory / "work").mkdir()
        if as_user:
            os.chown(directory / "work", 65534, 65534)
        sandbox = server.add_sandbox(SPY.encode(), file_name="spy.py")
        server.add_job(python, "spy.py", input_sandboxes=[sandbox])
        options = ["--server", server.url, "--token-file", "-", "--max-idle-s", "0"]
        ended = subprocess.run(
            [*as_user, python, program, *options, "--work-dir", directory / "work"],
            input=PILOT_TOKEN,
            capture_output=True,
            text=True,
            timeout=within(60),
            check=False,
        )
    finally:
        shutil.rmtree(directory)

    assert ended.returncode == 0, ended.stderr
    lines = server.lease.files()["std.out"].splitlines()
    if as_user:
        assert len(lines) >= 8  # the supervisor and the pilot
    assert not [line for line in lines if line.startswith("READ")]


# ---- where a pilot is


@pytest.mark.parametrize(
    ("told", "named"),
    [
        (("--site", "S.ONE"), {"site": "S.ONE"}),
        (("--site", "S.ONE", "--ce", "ce1"), {"site": "S.ONE", "ce": "ce1"}),
        (("--queue", "grid"), {"queue": "grid"}),
        ((), {}),
    ],
)
def test_a_pilot_made_by_hand_sends_its_configured_place(
    server: ScriptedServer, start: StartAgent, told: tuple[str, ...], named: dict[str, str]
) -> None:
    server.configuration["place"] = None

    assert start(*told).wait() == 0

    offer = server.requests_to("/matches/")[0].body
    assert {level: offer[level] for level in ("site", "ce", "queue") if level in offer} == named
    assert "submit_pools" not in offer


def test_a_place_that_contradicts_the_token_ends_the_pilot(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("true")

    agent = start("--site", "S.ELSEWHERE")

    assert agent.wait() == 1
    assert server.leaving == ["--site S.ELSEWHERE was given, but the token is of a pilot at site LCG.Test.org"]
    assert not server.leases
