"""Supervision of a payload: heartbeats, commands, limits and expired leases, with real processes."""

import shlex

from tests.agent.conftest import StartAgent
from tests.agent.running import marker, processes_with
from tests.agent.scripted import LOSE, ScriptedServer
from tests.pace import Deadline, wait_for

#: Ignores SIGTERM, as do its child and its grandchild in a session of its own.
STUBBORN = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep {m}; sleep {m}' & echo started; sleep {m}; sleep {m}"


def _stubborn(mark: str) -> str:
    return f"-c {shlex.quote(STUBBORN.format(m=mark))}"


def test_heartbeats_send_usage_and_the_last_lines(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'seq 1 99; printf \"\\\\0bytes \\\\377\\n\"; sleep 1000'")
    agent = start()
    server.wait_until(lambda: server.leases and any("std_output" in beat for beat in server.lease.heartbeats))
    server.wait_until(lambda: len(server.lease.heartbeats) >= 3 and server.lease.heartbeats[-1].get("memory_mb", 0) > 0)
    agent.stop()
    assert agent.wait() == 0

    told = [beat["std_output"] for beat in server.lease.heartbeats if "std_output" in beat]
    assert told[-1].splitlines() == [*[str(n) for n in range(81, 100)], "bytes \ufffd"]
    assert len(told) <= 2  # what has not changed is not sent again
    last = server.lease.heartbeats[-1]
    assert last["wall_s"] > 0
    assert last["memory_mb"] > 0


def test_heartbeats_send_changed_last_lines_of_standard_error(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'seq 1 99 >&2; sleep 1; echo more >&2; sleep 1000'")
    agent = start()
    server.wait_until(lambda: server.leases and any("more" in b.get("std_error", "") for b in server.lease.heartbeats))
    beats = len(server.lease.heartbeats)
    server.wait_until(lambda: len(server.lease.heartbeats) >= beats + 2)
    agent.stop()
    assert agent.wait() == 0

    told = [beat["std_error"] for beat in server.lease.heartbeats if "std_error" in beat]
    assert told[-1].splitlines() == [*[str(n) for n in range(81, 100)], "more"]
    assert len(told) <= 2
    # Nothing is sent of standard output, of which the server has no lines, and there are none.
    assert not any("std_output" in beat for beat in server.lease.heartbeats)


def test_a_payload_that_fails_at_once_leaves_its_last_lines(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["heartbeat_s"] = 30
    server.add_job("/bin/sh", "-c 'echo begun; echo no such file >&2; exit 2'")

    assert start().wait() == 0

    (last,) = server.lease.heartbeats
    assert (last["std_output"], last["std_error"]) == ("begun\n", "no such file\n")
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 2
    # They are sent once.
    assert not {"std_output", "std_error"} & server.lease.finished.keys()


def test_the_final_report_sends_last_lines_not_yet_reported(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["heartbeat_s"] = 30
    server.script("/heartbeat/", (400, {"code": "bad_request", "detail": "as the test says"}))
    server.add_job("/bin/sh", "-c 'echo begun; echo no such file >&2; exit 2'")

    assert start().wait() == 0

    assert server.lease.heartbeats == []
    assert server.lease.finished is not None
    assert (server.lease.finished["std_output"], server.lease.finished["std_error"]) == ("begun\n", "no such file\n")


def test_the_last_lines_of_a_killed_payload_are_reported(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["heartbeat_s"] = 1
    script = "trap 'echo terminated >&2; exit 3' TERM; echo started; while :; do sleep 0.1; done"
    server.add_job("/bin/sh", f"-c {shlex.quote(script)}")
    agent = start()
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )
    server.order("kill", id=41)

    assert agent.wait() == 0

    # With the heartbeat that acknowledges the kill, or with one before it; the final report may be refused.
    told = [beat["std_error"] for beat in server.lease.heartbeats if "std_error" in beat]
    assert told[-1].splitlines()[-1] == "terminated"
    assert 41 in server.lease.acknowledged


def test_output_and_error_in_one_file_are_sent_once(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'echo out; echo err >&2'", std_output="both.txt", std_error="both.txt")

    assert start().wait() == 0

    (told,) = [beat for beat in server.lease.heartbeats if "std_output" in beat]
    assert told["std_output"] == "out\nerr\n"
    assert "std_error" not in told


def test_heartbeats_begin_before_the_payload_does(server: ScriptedServer, start: StartAgent) -> None:
    sandbox = server.add_sandbox(b"x", file_name="data")
    server.add_job("true", input_sandboxes=[sandbox])
    server.script(f"{sandbox['sandbox'][7:]}/", *[503] * 3)
    server.configuration["match_retry_after_s"] = 0.3

    assert start().wait() == 0

    first_beat = server.requests_to("/heartbeat/")[0]
    assert first_beat.at < server.requests_to("/status/")[0].at


def test_a_kill_command_ends_every_process_before_it_is_acknowledged(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    alive_when_acknowledged: list[int] = []
    server.add_job("/bin/sh", _stubborn(mark))
    agent = start("--grace-s", "0.5")
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )
    assert processes_with(mark)

    server.order("kill", id=41)
    server.wait_until(lambda: 41 in server.lease.acknowledged)
    alive_when_acknowledged += processes_with(mark)

    assert agent.wait() == 0
    assert alive_when_acknowledged == []
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 137
    assert server.lease.finished["minor_status"] == "Killed by order"
    assert server.lease.files()["std.out"] == "started\n"


def test_a_payload_that_stops_its_supervisor_is_still_killed(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", f"-c 'kill -STOP $PPID; echo stopped; sleep {mark}'")
    agent = start("--grace-s", "0.3")
    server.wait_until(
        lambda: server.leases and any("stopped" in b.get("std_output", "") for b in server.lease.heartbeats)
    )

    server.order("kill", id=41)

    assert agent.wait() == 0
    assert processes_with(mark) == []
    assert server.lease.acknowledged == [41]
    assert server.lease.files()["std.out"] == "stopped\n"


def test_a_kill_command_is_executed_within_two_heartbeats(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["heartbeat_s"] = 2
    server.add_job("sleep", "987654")
    agent = start()
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    beats = len(server.lease.heartbeats)
    server.order("kill")

    server.wait_until(lambda: server.lease.acknowledged)

    assert len(server.lease.heartbeats) <= beats + 2
    assert agent.wait() == 0


def test_unknown_commands_are_acknowledged_and_ignored(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "1.5")
    agent = start()
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    server.order("dance", id=8)

    assert agent.wait() == 0

    assert server.lease.acknowledged.count(8) == 1
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
    assert "command.unknown" in agent.log


def test_peek_sends_the_output_again(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'echo seen; sleep 987654'")
    agent = start()
    server.wait_until(lambda: server.leases and any("seen" in b.get("std_output", "") for b in server.lease.heartbeats))
    server.lease.heartbeats.clear()
    server.order("peek", id=9)

    server.wait_until(lambda: 9 in server.lease.acknowledged)

    acknowledging = next(beat for beat in server.lease.heartbeats if 9 in beat["acknowledged"])
    assert acknowledging["std_output"] == "seen\n"
    agent.stop()
    assert agent.wait() == 0


def test_a_lease_that_ended_stops_the_payload_and_nothing_more_is_reported(
    server: ScriptedServer, start: StartAgent
) -> None:
    mark = marker()
    server.add_job("/bin/sh", _stubborn(mark))
    server.add_job("true")
    agent = start("--grace-s", "30")
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    ended = server.lease
    server.end_lease()

    assert agent.wait() == 0

    assert processes_with(mark) == []
    last = [seen for seen in server.seen if ended.match_id in seen.path][-1]
    assert last.path.endswith("/heartbeat/")
    assert ended.finished is None
    assert server.leases[1].finished is not None


def test_a_lease_that_ended_before_the_start_runs_no_payload(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["heartbeat_s"] = 30  # none comes before the start on a slow machine
    server.add_job("true")
    server.script("/status/", (409, {"code": "lease_ended", "detail": "over"}))

    assert start().wait() == 0

    assert [seen.path.split("/")[-2] for seen in server.seen if server.lease.match_id in seen.path] == ["status"]


def test_a_lease_that_cannot_be_renewed_stops_the_payload_in_time(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.configuration |= {"lease_s": 10, "lease_grace_s": 6}
    server.add_job("sleep", mark)
    agent = start("--patience-s", "1")
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    lease_ends = Deadline(10)
    server.script("/heartbeat/", *[500] * 1000)
    server.script("/finish/", *[500] * 2)

    server.wait_until(lambda: not processes_with(mark) and server.lease.statuses)

    assert not lease_ends.has_passed()
    agent.wait()
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert server.lease.finished["minor_status"] == "The pilot could not renew its lease"


def test_a_short_outage_of_the_server_loses_no_running_job(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "1.2")
    agent = start()
    server.wait_until(lambda: server.leases and server.lease.heartbeats)
    server.script("/heartbeat/", *[500] * 3, "drop the connection instead of answering")
    server.script("/status/", 503)
    server.script("/sandboxes/", 502, "drop the connection instead of answering")
    server.script("/finish/", 500, LOSE)

    assert agent.wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
    assert server.lease.output is not None
    assert len(server.leases) == 1


def test_a_payload_over_its_cpu_time_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    burn = "trap 'exit 0' TERM; while :; do :; done"
    server.add_job("/bin/sh", f"-c {shlex.quote(burn)}", cpu_time_s=1)

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert server.lease.finished["minor_status"].startswith("CPU time limit exceeded: ")
    assert 1 <= server.lease.finished["usage"]["cpu_s"] < 3
    assert server.lease.output is not None


def test_a_payload_may_use_its_cpu_time_on_each_processor(server: ScriptedServer, start: StartAgent) -> None:
    burn = "import time\nwhile time.process_time() < 1.2: pass"
    server.add_job("python3", f"-c {shlex.quote(burn)}", cpu_time_s=1, processors=2)

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


def test_a_payload_that_outlives_the_slot_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "987654")

    assert start("--wall-time-s", "6", "--speed", "5").wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert server.lease.finished["minor_status"].startswith("Wall clock limit of the slot exceeded: ")


def test_a_pilot_that_is_stopped_hands_its_job_back(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", _stubborn(mark))
    agent = start("--grace-s", "0.3")
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )

    agent.stop()

    assert agent.wait() == 0
    assert processes_with(mark) == []
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert server.lease.finished["minor_status"] == "Pilot was stopped"
    assert server.leaving == ["stopped by SIGTERM"]
    assert list(agent.work.iterdir()) == []


def test_killing_a_pilot_ends_its_payload(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", _stubborn(mark))
    agent = start()
    server.wait_until(
        lambda: server.leases and any("started" in b.get("std_output", "") for b in server.lease.heartbeats)
    )

    agent.process.kill()
    agent.process.wait()

    wait_for(lambda: processes_with(mark) == [], 10)
