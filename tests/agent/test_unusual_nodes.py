"""Pilots on unusual nodes, or started in unusual ways: they work, or exit with one sentence that says why not."""

import os
import shlex
import socket
import subprocess
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.node import inspection
from pilots.agent.server.http import Client, UnreachableError
from tests.agent.conftest import StartAgent
from tests.agent.running import ROOT
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer, Seen
from tests.pace import within
from tests.serving import LoopbackServer

AGENT = f"{shlex.quote(sys.executable)} -m pilots.agent --token-file - --max-idle-s 0 --speed 1"


def run(command: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command of the shell that starts the agent."""
    more = {"input": PILOT_TOKEN, "env": {"PATH": os.environ["PATH"]}, **more}
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=within(60), check=False, **more
    )


# ---- how it is started


@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "2>/dev/full", "1>/dev/full 2>/dev/full"])
def test_a_closed_standard_output_does_not_stop_the_pilot(server: ScriptedServer, tmp_path: Path, closed: str) -> None:
    server.add_job("/bin/echo", "ran")

    ended = run(f"{AGENT} --server {server.url} --work-dir {tmp_path} {closed}")

    assert ended.returncode == 0
    assert server.lease.files()["std.out"] == "ran\n"
    assert "pilot.leaving" in server.log


def test_without_standard_input_there_is_no_token_in_it(server: ScriptedServer, tmp_path: Path) -> None:
    ended = run(f"{AGENT} --server {server.url} --work-dir {tmp_path} <&-")
    assert (ended.returncode, ended.stderr) == (2, "Standard input holds no token in its first line.\n")


def test_an_empty_environment_is_enough(server: ScriptedServer) -> None:
    server.add_job("/bin/echo", "ran")

    assert run(f"{AGENT} --server {server.url}", env={}).returncode == 0

    assert server.lease.files()["std.out"] == "ran\n"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_missing_certificates_are_a_usage_error(tmp_path: Path, scheme: str) -> None:
    token = tmp_path / "token"
    token.write_text(PILOT_TOKEN)
    token.chmod(0o600)
    options = f"--server {scheme}://127.0.0.1:9 --ca /absent --token-file {token} --remove-token-file"

    ended = run(f"{AGENT} {options}")

    assert (ended.returncode, ended.stderr) == (
        2,
        "The certificates /absent cannot be read: [Errno 2] No such file or directory.\n",
    )
    assert token.exists()


def test_a_token_file_that_cannot_be_removed_is_not_used(server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(PILOT_TOKEN)
    token.chmod(0o600)
    # No name in /proc can be removed, whoever tries.
    given = "--token-file /proc/self/fd/9 --remove-token-file"

    ended = run(f"{AGENT} --server {server.url} {given} 9<{token}")

    assert ended.returncode == 2
    assert ended.stderr.startswith("The token file /proc/self/fd/9 cannot be removed (Operation not permitted)")
    assert server.seen == []


# ---- where it works


@pytest.mark.parametrize("name", ["two words", 'it\'s "quoted" $HOME', "ünï", "\udcff is no text", "-rf"])
def test_a_work_directory_may_have_any_name(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, name: str
) -> None:
    directory = tmp_path / name
    directory.mkdir()
    server.add_job("/bin/sh", "-c 'echo ran > out; cat out'")

    agent = start(f"--work-dir={directory}", work_dir=False)

    assert agent.wait() == 0, agent.log
    assert server.lease.files()["std.out"] == "ran\n"
    assert list(directory.iterdir()) == []


def test_a_relative_work_directory_is_where_the_pilot_started(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    server.add_job("pwd")

    ended = run(f"cd {tmp_path} && PYTHONPATH={ROOT} {AGENT} --server {server.url} --work-dir work")

    assert ended.returncode == 0, ended.stderr
    assert server.lease.files()["std.out"].startswith(f"{tmp_path}/work/")


def _may_mount() -> bool:
    try:
        return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


mounting = pytest.mark.skipif(not _may_mount(), reason="mounts need rights that this user does not have")


@mounting
@pytest.mark.parametrize(
    ("mounted", "flaw"),
    [
        ("mount -t tmpfs -o ro none", "cannot be written to: Read-only file system"),
        ("mount -t tmpfs -o noexec none", "is mounted noexec: no program in it can be executed"),
        (
            "f() { mount -t tmpfs -o size=64k none $1; head -c 1m </dev/zero >$1/x 2>&-; true; }; f",
            "cannot be written to: No space left on device",
        ),
    ],
)
def test_a_work_directory_that_cannot_be_used_is_reported(
    server: ScriptedServer, tmp_path: Path, mounted: str, flaw: str
) -> None:
    server.add_job("true")

    ended = _run_with(mounted + f" {tmp_path}", f"{AGENT} --server {server.url} --work-dir {tmp_path}")

    assert ended.returncode == 1, ended.stderr
    assert server.node_reports[0]["checks"][0] == {
        "name": "work_directory",
        "ok": False,
        "detail": f"{tmp_path} {flaw}",
    }
    assert server.leases == []


@mounting
def test_a_read_only_node_is_reported_to_the_server(server: ScriptedServer) -> None:
    # The directory where it starts too, where it would look in the end.
    mount = "mount --bind $place $place && mount -o remount,bind,ro $place"
    everywhere = f"for place in /tmp /var/tmp /usr/tmp; do mkdir -p $place && {mount} || exit; done"

    ended = _run_with(f"{everywhere}; cd /proc", f"PYTHONPATH={ROOT} {AGENT} --server {server.url}")

    assert ended.returncode == 1, ended.stderr
    assert server.node_reports[0]["checks"][0]["detail"] == "/tmp cannot be written to: Read-only file system"
    assert server.leaving == ["the node is not fit"]


@mounting
@pytest.mark.parametrize("missing", ["umount -l /proc", "mount -t tmpfs none /sys", "mount -t tmpfs none /etc"])
def test_facts_that_the_system_does_not_provide_are_unknown(
    server: ScriptedServer, tmp_path: Path, missing: str
) -> None:
    server.add_job("/bin/sh", "-c 'sleep 0.5; echo ran'")

    ended = _run_with(missing, f"{AGENT} --server {server.url} --work-dir {tmp_path}")

    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "agent.fault" not in ended.stderr
    assert server.lease.files()["std.out"] == "ran\n"


def _run_with(setup: str, command: str) -> "subprocess.CompletedProcess[str]":
    return run(f"exec unshare --mount /bin/sh -c {shlex.quote(f'{setup} && {command}')}")


def test_a_node_without_load_and_name_is_still_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unknown)
    monkeypatch.setattr(socket, "gethostname", lambda: "")

    report = inspection.look(tmp_path, min_free_disk_mb=0, skew_s=0, speed=1).as_record()

    assert report["host_name"] == "unnamed"
    assert report["ok"] is True
    assert isinstance(report["node"], dict)
    assert report["node"]["load"] is None


# ---- where the server is


class _Version6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class ServerOfVersion6(ScriptedServer):
    """The scripted server at an IPv6 address, below a path."""

    kind = _Version6
    host = "::1"

    @property
    def url(self) -> str:
        return f"http://[::1]:{self._http.server_port}/of/vo/"

    def answer(self, seen: Seen) -> tuple[int, object]:
        assert seen.path.startswith("/of/vo/api/v1/")
        return super().answer(replace(seen, path=seen.path[len("/of/vo") :]))


def _has_version_6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_version_6(), reason="there is no IPv6 here")
def test_a_server_url_may_have_an_ipv6_address_and_a_path(tmp_path: Path) -> None:
    with ServerOfVersion6() as server:
        sandbox = server.add_sandbox(b"ran", file_name="input")
        server.add_job("/bin/cat", "input", input_sandboxes=[sandbox])
        ended = run(f"{AGENT} --server {server.url} --work-dir {tmp_path}")

    assert ended.returncode == 0, ended.stderr
    assert server.lease.files()["std.out"] == "ran"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://[2001:db8::5]", ("2001:db8::5", 80)),
        ("https://[2001:db8::5]/wms/", ("2001:db8::5", 443)),
        ("http://[::1]:8000", ("::1", 8000)),
        ("HTTP://Wms.Example.ORG", ("wms.example.org", 80)),
    ],
)
def test_the_end_of_an_ipv6_address_is_not_a_port(
    monkeypatch: pytest.MonkeyPatch, url: str, address: tuple[str, int]
) -> None:
    asked = []

    def nobody(address: tuple[str, int], *_: object, **__: object) -> None:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", nobody)
    with pytest.raises(UnreachableError):
        Client(url, timeout_s=1).call("GET", "/", token="t")
    assert asked == [address]


class _SendsOn(BaseHTTPRequestHandler):
    """A handler that redirects to the server's new address, as a proxy does."""

    def do_GET(self) -> None:
        self.send_response(308)
        self.send_header("Location", f"https://wms.example.org{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_redirected_pilot_names_the_target(tmp_path: Path) -> None:
    with LoopbackServer(_SendsOn) as server:
        ended = run(f"{AGENT} --server {server.url} --work-dir {tmp_path}")

    assert ended.returncode == 1
    assert (
        "it redirects to https://wms.example.org/api/v1/pilots/config/, but tokens are for one address" in ended.stderr
    )
