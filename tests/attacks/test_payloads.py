"""Payloads that attack their pilot, their neighbours or later payloads: real agents, real processes."""

import shutil
from ast import literal_eval
from pathlib import Path

import pytest

from tests.agent.running import ORDINARY_USER, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer
from tests.attacks.payloads import ATTACK, MEET, VICTIM, Meeting, Start, printed, python

#: Pilots are started under several accounts.
pytestmark = pytest.mark.root


def test_payloads_can_access_neither_each_other_nor_the_pilot(
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


def test_payloads_of_a_root_pilot_have_separate_unprivileged_users(
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


def test_a_payload_can_kill_only_its_own_processes(server: ScriptedServer, start: Start, meeting: Meeting) -> None:
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


def test_files_in_shared_directories_are_removed_after_a_payload(server: ScriptedServer, start: Start) -> None:
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


def test_payloads_cannot_read_the_pilot_token_or_hidden_paths(
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


def test_without_isolation_one_payload_runs_at_a_time(
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
def test_the_node_report_names_the_isolation(
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


def taken_from(directory: Path, done: str) -> list[str]:
    """Return what ATTACK read, traced or wrote of the pilot in the directory.

    Where nothing keeps them apart, other pilots of the account on this machine are open to it.
    """
    return [each for each in literal_eval(done) if str(directory) in each and not each.startswith("signalled")]


def test_a_payload_without_namespaces_cannot_read_its_pilot(
    server: ScriptedServer, start_as: Start, meeting: Meeting, directory: Path
) -> None:
    python(server, ATTACK.format(port=meeting.port, word="attacker", mark=marker()))
    agent = start_as(node="neither")

    meeting.wait_for("attacker")
    meeting.let_go("attacker")

    assert agent.wait() == 0, agent.log
    assert not taken_from(directory, printed(server.lease))


def test_a_job_can_be_killed_while_huge_output_is_read(server: ScriptedServer, start: Start, directory: Path) -> None:
    place = {"storage_element": "disk", "url": f"file://{directory}/stored", "path": "/lhcb/user"}
    job_data = {"input_files": [], "destination": place, "credentials": {}}
    server.add_job("/usr/bin/truncate", "-s 8T all", output_data=["all"], job_data=job_data)
    agent = start(environment={"PATH": "/usr/bin:/bin"})
    server.wait_until(lambda: server.leases and "Completing" in server.lease.statuses)
    server.order("kill")

    assert agent.wait() == 0, agent.log
    assert server.lease.acknowledged == [1]
    assert server.lease.ended == "killed"


def test_cyclic_links_do_not_make_the_output_search_endless(server: ScriptedServer, start: Start) -> None:
    links = "for name in 1 2 3 4 5 6 7 8 9 a b c d e f g h i j k; do ln -s . $name; done; mkdir k2; echo x > k2/result"
    server.add_job("/bin/sh", f"-c '{links}'", output_sandbox=["*/*/*/*/*/*/*/*/none", "**/resul?"])
    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.files()["k2/result"] == "x\n"


def test_a_pilot_that_is_root_only_in_its_container_makes_no_payload_root(
    server: ScriptedServer, start_as: Start, directory: Path
) -> None:
    hidden = directory / "hidden" / "key"
    hidden.parent.mkdir()
    hidden.write_text(PILOT_TOKEN)
    for each in (hidden, hidden.parent):
        shutil.chown(each, ORDINARY_USER)
    unmount = "for place in $(tac /proc/self/mounts | cut -d ' ' -f 2); do umount -l $place; done"
    script = f"{unmount}\nid -u; grep CapEff /proc/self/status; cat {hidden}\nexit 0\n".encode()
    server.add_job("/bin/sh", "script", input_sandboxes=[server.add_sandbox(script, file_name="script")])

    agent = start_as("--hide", str(hidden.parent), node="namespaces", enter=("unshare", "--user", "--map-root-user"))

    assert agent.wait() == 0, agent.log
    assert printed(server.lease) == f"60706\nCapEff:\t{'0' * 16}\n"


def test_a_container_root_without_namespaces_cannot_read_its_pilot(
    server: ScriptedServer, start_as: Start, meeting: Meeting, directory: Path
) -> None:
    python(server, ATTACK.format(port=meeting.port, word="attacker", mark=marker()))
    change_root = 'mount --rbind / /mnt && exec chroot /mnt "$0" "$@"'  # where the kernel refuses further namespaces
    container = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", change_root)
    agent = start_as(node="namespaces", enter=container)

    meeting.wait_for("attacker")
    assert server.node_reports[0]["node"]["isolation"] == "one payload at a time"
    meeting.let_go("attacker")

    assert agent.wait() == 0, agent.log
    assert not taken_from(directory, printed(server.lease))


def test_a_root_pilot_without_mounts_gives_payloads_user_ids(server: ScriptedServer, start_as: Start) -> None:
    server.add_job("/usr/bin/id", "-u")

    agent = start_as(node="root", enter=("setpriv", "--bounding-set", "-sys_admin"))

    assert agent.wait() == 0, agent.log
    assert server.node_reports[0]["node"]["isolation"] == "user id"
    assert 60706 <= int(printed(server.lease)) < 65520
