"""Hosts behind SSH whose login shells print text, whose connections hang, or which prompt for input."""

import json
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path

import psutil
import pytest

from pilots.backends.commands import BatchCommandFailedError, CommandLostError, ask_host, commands_of, stop_sharing
from pilots.backends.interface import Handle, Presence
from tests.backends.hosts.pilots import CE, SITE, StandInSSH, description, no_pilot_left, order
from tests.pace import wait_for, within
from tests.ssh import SSHHost, ssh_host

#: Stands in for the files of a login shell.
_SHELL = """\
#!/bin/sh
{first}
exec {shell} -c "$SSH_ORIGINAL_COMMAND"
"""
#: Those that are there; each has rules of its own for what stands in quotes.
SHELLS = [shell for shell in ("bash", "dash", "tcsh", "fish", "zsh", "ksh") if shutil.which(shell)]
AWKWARD = ["a b", "", "it's", '"$HOME"', "*", "a\\nb", "€", "-x", ";true", "!x", "\\\\", "\\'!"]


def login(directory: Path, first: str, shell: str = "sh") -> str:
    """Return the configuration line with which sshd runs commands in such a shell."""
    program = directory / "shell"
    program.write_text(_SHELL.format(first=first, shell=shell))
    program.chmod(0o755)
    return f"ForceCommand {program}\n"


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("echo Welcome; echo; echo 'n1|main|up|idle|'", id="lines"),
        pytest.param("printf 'no end of line'", id="half a line"),
        pytest.param("printf '\\377\\0{}[]'; echo Maintenance on Monday. >&2", id="bytes"),
    ],
)
def test_output_of_a_login_shell_is_ignored(first: str, tmp_path: Path, short: Path) -> None:
    with no_pilot_left(tmp_path), ssh_host(tmp_path, configuration=login(tmp_path, first)) as host:
        there, _ = commands_of({**host.options, "environment": {"TZ": "b c"}}, directory=short)
        assert there.run(["sh", "-s"], stdin='echo "$TZ"') == "b c\n"
        assert ask_host(there, {"do": "tail", "path": "/no/such", "size": 1}, str) == ""
        with pytest.raises(
            BatchCommandFailedError, match=r"^sh on 127\.0\.0\.1 ended with exit code 3: (Maint.*\n)?no$"
        ):
            there.run(["sh", "-c", "echo no >&2; exit 3"])

        backend = StandInSSH(description(short / "ce", {**host.options, "directory": str(tmp_path / "there")}))
        wanted = order("exit3")
        assert backend.submit([wanted])[0].batch_id
        wait_for((tmp_path / "there" / SITE / CE / wanted.stamp / "exit_code").exists)
        state = backend.status([Handle(stamp=wanted.stamp)])[wanted.stamp]
        assert (state.presence, state.exit_code) == (Presence.ENDED, 3)


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_pass_through_any_login_shell(shell: str, tmp_path: Path, short: Path) -> None:
    with ssh_host(tmp_path, configuration=login(tmp_path, ":", shell)) as host:
        there, _ = commands_of({**host.options, "programs": "/usr/bin"}, directory=short)
        show = ["python3", "-c", "import json, sys; json.dump(sys.argv[1:], sys.stdout)"]
        assert json.loads(there.run([*show, *AWKWARD])) == AWKWARD


def test_a_host_without_a_usable_shell_is_reported(tmp_path: Path, short: Path) -> None:
    with ssh_host(tmp_path, configuration="ForceCommand echo Transfers only.\n") as host:
        there, _ = commands_of(host.options, directory=short)
        with pytest.raises(CommandLostError, match=r"was not run; the host answered 'Transfers only\.\\n' instead\.$"):
            there.run(["true"])


def test_a_shared_connection_that_hangs_is_not_used_again(sshd: SSHHost, short: Path) -> None:
    there, _ = commands_of(sshd.options, directory=short / "ce")
    there.run(["true"])
    master = master_below(short)
    os.kill(master.pid, signal.SIGSTOP)
    try:
        with pytest.raises(CommandLostError, match="gave no answer"):
            there.run(["true"], timeout_s=1)
        assert there.run(["echo", "well"]) == "well\n"
    finally:
        os.kill(master.pid, signal.SIGKILL)
    assert there.run(["echo", "well"]) == "well\n"


@pytest.mark.parametrize("directory", ["ce", "c" * 80])
def test_connections_that_are_no_longer_shared_end(
    sshd: SSHHost, short: Path, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the socket is in another place because its name would be too long; a silent one holds up nobody."""
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    there, _ = commands_of(sshd.options, directory=short / directory)
    there.run(["true"])
    master = master_below(short)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(short / "ssh-silent"))
        silent.listen()
        stop_sharing([short, short / directory, short / "none"])
    master.wait(within(10))
    assert there.run(["echo", "well"]) == "well\n"
    stop_sharing([short / directory])


def master_below(directory: Path) -> psutil.Process:
    """Return the ssh process of the shared connection whose socket is below the directory."""
    processes = psutil.process_iter(["cmdline"])
    (master,) = [process for process in processes if str(directory) in " ".join(process.info["cmdline"] or [])]
    return master


def test_a_stale_socket_is_ignored(sshd: SSHHost, short: Path) -> None:
    there, _ = commands_of(sshd.options, directory=short / "ce")
    there.run(["true"])
    (path,) = [path for path in (short / "ce").iterdir() if path.is_socket()]
    path.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert there.run(["echo", "well"]) == "well\n"


def test_no_command_prompts_for_input(tmp_path: Path, short: Path) -> None:
    configuration = "PubkeyAuthentication no\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes\n"
    with ssh_host(tmp_path, configuration=f"Match all\n{configuration}") as host:
        there, _ = commands_of(host.options, directory=short)
        with pytest.raises(CommandLostError, match="denies access"):
            there.run(["true"])
