"""CEs reached by SSH: lost answers, ended sessions, and pilots that download the agent."""

import hashlib
import io
import shutil
import sys
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from uuid import uuid4

import pytest

from pilots.backends.commands import commands_of
from pilots.backends.interface import BackendError, BatchState, Handle, Presence
from pilots.backends.ssh import SSHBackend
from tests.backends.hosts.conftest import Host
from tests.backends.hosts.pilots import (
    CE,
    SITE,
    StandInSSH,
    description,
    no_pilot_left,
    order,
    process_of,
    start,
)
from tests.cases import quick_cases
from tests.pace import wait_for
from tests.serving import LoopbackServer
from tests.ssh import SSHHost, ssh_host

REAL_SSH = shutil.which("ssh")


def wrap_ssh(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a wrapper in place of ssh, which calls the real one."""
    directory.mkdir()
    program = directory / "ssh"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


@pytest.mark.parametrize(
    "script",
    quick_cases(
        [
            pytest.param(f'{REAL_SSH} "$@" >/dev/null; exit 255', id="it was done and the answer was lost"),
            pytest.param(f'{REAL_SSH} "$@" >/dev/null; kill -9 $$', id="ssh was killed"),
            pytest.param(
                f'exec 3<&0; {REAL_SSH} "$@" <&3 & until [ -e {{process}} ]; do sleep 0.01; done; kill -9 $!; exit 255',
                id="ssh was killed in the middle",
            ),
        ],
        quick=1,
    ),
)
def test_a_pilot_whose_answer_was_lost_is_found_and_not_started_twice(
    ssh: Host, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = order()
    own = ssh.place / wanted.stamp
    with monkeypatch.context() as lossy:
        wrap_ssh(tmp_path / "lossy", script.format(process=own / "process"), lossy)
        (lost,) = ssh.backend().submit([wanted])
    assert (lost.stamp, lost.batch_id, lost.error) == (wanted.stamp, "", "")
    wait_for((own / "taken").exists)

    found = ssh.backend().status([Handle(stamp=wanted.stamp)])[wanted.stamp]
    assert found == BatchState(presence=Presence.RUNNING, batch_id=process_of(own).batch_id)
    (again,) = ssh.backend().submit([wanted])
    assert again.batch_id == found.batch_id
    assert (own / "begun").read_text() == "begun\n"


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_host_is_reached_by_its_ipv6_address(host: str, tmp_path: Path, short: Path) -> None:
    with ssh_host(tmp_path, address="::1") as there:
        commands, _ = commands_of({**there.options, "host": host}, directory=short)
        assert commands.run(["echo", "here"]) == "here\n"


def test_a_submission_that_never_arrived_is_unknown(ssh: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = order()
    with monkeypatch.context() as broken:
        wrap_ssh(tmp_path / "broken", "echo Connection reset by peer >&2; exit 255", broken)
        (lost,) = ssh.backend().submit([wanted])
        with pytest.raises(BackendError, match="cannot be reached, or the connection broke: Connection reset by peer"):
            ssh.backend().status([Handle(stamp=wanted.stamp)])
    assert (lost.batch_id, lost.error) == ("", "")
    assert ssh.backend().status([Handle(stamp=wanted.stamp)]) == {}
    assert ssh.backend().submit([wanted])[0].batch_id


def test_pilots_outlive_the_sshd_that_started_them(tmp_path: Path, short: Path) -> None:
    (tmp_path / "sshd").mkdir()
    place = tmp_path / "there" / SITE / CE
    with no_pilot_left(tmp_path):
        with ssh_host(tmp_path / "sshd") as host:
            options = {**host.options, "directory": str(tmp_path / "there"), "python": sys.executable}
            backend = StandInSSH(description(short / "ce", options))
            _, own = start(backend, place)
        with pytest.raises(BackendError, match="Connection refused"):
            backend.capacity()
        assert process_of(own).pilot_lives
        assert process_of(own).lives


@pytest.mark.parametrize("start_of_it", ["{home}/", "~/", ""])
def test_the_directory_is_below_the_home_directory_unless_it_says_otherwise(
    sshd: SSHHost, short: Path, start_of_it: str
) -> None:
    name = f".wms-tests-{uuid4().hex}/a b/$HOME"
    directory = f"{start_of_it.format(home=Path.home())}{name}"
    options = {**sshd.options, "directory": directory, "python": sys.executable}
    backend = StandInSSH(description(short / "ce", options))
    place = Path.home() / name
    try:
        with no_pilot_left(place):
            stamp, _ = start(backend, place / SITE / CE, "exit0")
            assert backend.output(Handle(stamp=stamp)) == f"hello from {stamp}\n"
    finally:
        shutil.rmtree(place.parent.parent)


PROGRAM = """
import sys
secret = open(sys.argv[sys.argv.index("--token-file") + 1]).read()
open("taken", "w").write(secret)
print(" ".join(sys.argv[1:]))
sys.exit(4)
"""


class Agents(LoopbackServer):
    """A handler that serves a stand-in as the agent."""

    def __init__(self) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("__main__.py", PROGRAM)
        content = packed.getvalue()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.path == "/api/v1/pilots/agent.pyz"
                self.send_response(200)
                self.send_header("X-Agent-SHA256", hashlib.sha256(content).hexdigest())
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)


def test_a_pilot_installs_itself_and_has_its_place_as_arguments(sshd: SSHHost, tmp_path: Path, short: Path) -> None:
    options = {**sshd.options, "directory": str(tmp_path), "python": sys.executable, "max_idle_s": 7}
    wanted = order("gr id")
    own = tmp_path / SITE / CE / wanted.stamp
    with Agents() as server, no_pilot_left(tmp_path):
        backend = SSHBackend(description(short / "ce", options, server_url=server.url))
        assert backend.submit([wanted])[0].error == ""
        wait_for((own / "exit_code").exists)
    assert backend.status([Handle(stamp=wanted.stamp)])[wanted.stamp].exit_code == 4
    assert (own / "taken").read_text() == f"{wanted.secret}\n"
    said = backend.output(Handle(stamp=wanted.stamp))
    assert "--token-file secret --remove-token-file --vo lhcb --site CERN --ce ce01 --queue gr id" in said
    assert f"--stamp {wanted.stamp} --max-idle-s 7 --work-dir work" in said


def test_a_host_without_the_interpreter_is_one_sentence(sshd: SSHHost, short: Path) -> None:
    options = {**sshd.options, "directory": str(short), "python": "python9"}
    with pytest.raises(BackendError, match=r"python9 on 127\.0\.0\.1 ended with exit code 127: .*python9"):
        SSHBackend(description(short / "ce", options)).capacity()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "requires the option host; pilots of this machine are of type local"),
        ({"hots": "h"}, 'has no option hots; it has directory, .*Did you mean "host"'),
        ({"host": "h", "max_processes": 0}, "max_processes must be a whole number, at least 1"),
        ({"host": "h", "max_idle_s": "60"}, "max_idle_s must be"),
        ({"host": "h", "python": ""}, "python must be a text"),
        ({"host": "h", "directory": 3}, "directory must be a text"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: Mapping[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=words):
        SSHBackend(description(tmp_path, options))
    assert list(tmp_path.iterdir()) == []
