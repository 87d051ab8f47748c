"""Commands on this machine and on a host behind SSH: their input, their failures, and invalid options."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pilots.backends.commands import (
    BatchCommandFailedError,
    CommandLostError,
    Commands,
    ask_host,
    commands_of,
)
from pilots.backends.interface import BackendError
from pilots.backends.ssh_connection import _digest
from tests.agent.running import marker, processes_with
from tests.pace import wait_for
from tests.ssh import SSHHost, known_host, make_key, ssh_host


def commands(options: Mapping[str, object], directory: Path) -> Commands:
    return commands_of(options, directory=directory)[0]


@pytest.fixture(params=["here", "over SSH"])
def options(request: pytest.FixtureRequest) -> Mapping[str, object]:
    """Return the options of this machine, and of the same machine behind SSH."""
    if request.param == "here":
        return {}
    host: SSHHost = request.getfixturevalue("sshd")
    return host.options


AWKWARD = ["a b", "", "it's", '"$HOME"', "*", "a\\nb", "€", "-x", ";true"]


def test_arguments_input_and_output_are_passed_unchanged(options: Mapping[str, object], short: Path) -> None:
    there = commands(options, short)
    show = ["python3", "-c", "import json, sys; json.dump([sys.argv[1:], sys.stdin.read()], sys.stdout)"]
    assert json.loads(there.run([*show, *AWKWARD], stdin="line\n€ " * 50_000)) == [AWKWARD, "line\n€ " * 50_000]
    assert there.run(["pwd"]).strip() == str(Path.home())
    assert there.run(["cat"]) == ""


def test_only_variables_of_the_options_are_passed(
    options: Mapping[str, object], short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS_SECRET_KEY", "secret-of-the-server")
    monkeypatch.setenv("WMS_STACK_MARK", "marked")
    own = {"SLURM_CONF": "/etc/it's here/slurm.conf", "LANGUAGE": ""}
    there = commands({**options, "environment": own}, short)
    environment = dict(line.split("=", 1) for line in there.run(["env", "-0"]).split("\0") if line)
    assert {name: environment[name] for name in own} == own
    assert "WMS_SECRET_KEY" not in environment
    assert "HOME" in environment
    assert environment.get("WMS_STACK_MARK") == (None if "host" in options else "marked")


def test_programs_are_found_in_their_directory_first(
    options: Mapping[str, object], tmp_path: Path, short: Path
) -> None:
    own = tmp_path / "pro grams"
    own.mkdir()
    (own / "env").write_text('#!/bin/sh\necho ours "$TZ"\n')
    (own / "env").chmod(0o755)
    there = commands({**options, "programs": str(own), "environment": {"TZ": "b"}}, short)
    assert there.run(["env"]) == "ours b\n"
    assert there.run(["sh", "-c", "echo $TZ"]) == "b\n"


def test_the_error_output_of_a_failed_command_is_reported(options: Mapping[str, object], short: Path) -> None:
    there = commands(options, short)
    with pytest.raises(BatchCommandFailedError, match=r"^sh.* ended with exit code 3: no such partition$"):
        there.run(["sh", "-c", "echo no such partition >&2; exit 3"])
    with pytest.raises(BatchCommandFailedError, match="exit code 1: no output"):
        there.run(["false"])
    with pytest.raises(BatchCommandFailedError, match="no-such-program"):
        there.run(["no-such-program"])


def test_a_killed_or_timed_out_command_has_an_unknown_result(options: Mapping[str, object], short: Path) -> None:
    there = commands(options, short)
    with pytest.raises(CommandLostError):
        there.run(["sh", "-c", "kill -9 $$"])
    with pytest.raises(CommandLostError, match=r"signal 15"):
        there.run(["sh", "-c", "sh -c 'kill -15 $$'; exit $?"])
    with pytest.raises(CommandLostError, match=r"^sleep.* gave no answer within 0 s\.$"):
        there.run(["sleep", "60"], timeout_s=0.3)
    assert there.run(["echo", "well"]) == "well\n"


def test_a_timed_out_local_command_is_killed_with_its_children(short: Path) -> None:
    seconds = marker()
    with pytest.raises(CommandLostError):
        commands({}, short).run(["sh", "-c", f"sleep {seconds} & sleep {seconds}; true"], timeout_s=0.5)
    wait_for(lambda: processes_with(seconds) == [])


def test_commands_run_on_the_host(options: Mapping[str, object], tmp_path: Path, short: Path) -> None:
    there = commands(options, short)
    directory = str(tmp_path / "there")
    assert ask_host(there, {"do": "write", "directory": directory, "files": {"a/b": "text"}}, str) == directory
    assert (tmp_path / "there/a/b").read_text() == "text"
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "there/a/b").stat().st_mode & 0o777 == 0o600
    assert ask_host(there, {"do": "tail", "path": f"{directory}/a/b", "size": 2}, str) == "xt"
    ask_host(there, {"do": "forget", "directory": directory, "stamps": ["a", "none"]}, type(None))
    assert list((tmp_path / "there/a").iterdir()) == []
    with pytest.raises(BatchCommandFailedError, match="/proc/none"):
        ask_host(there, {"do": "write", "directory": "/proc/none", "files": {}}, str)
    with pytest.raises(CommandLostError, match="cannot be read: '-I"):
        ask_host(there, {"do": "tail"}, str, python="echo")


def test_options_of_other_types_are_ignored(options: Mapping[str, object], short: Path) -> None:
    more = {"directory": "there", "python": "python3.12", "partition": "main"}
    assert commands_of({**options, **more, "programs": "/opt"}, directory=short)[1] == more


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"host": 3}, "host must be a text"),
        ({"host": ""}, "host must be a text"),
        ({"host": "-oProxyCommand=x"}, "host must be a name or an address"),
        ({"host": "user@host"}, "host must be a name"),
        ({"user": "alice"}, "user is for a host that is reached by SSH"),
        ({"port": 22}, "port is for a host"),
        ({"host": "h", "port": 0}, "port must be a whole number"),
        ({"host": "h", "port": "22"}, "port must be a whole number"),
        ({"host": "h", "port": 70000}, "at most 65535"),
        ({"host": "h", "user": "-l"}, "user must be the name"),
        ({"host": "h", "identity_file": "/no/such/key"}, "identity_file must be the path"),
        ({"host": "h", "identity_file": "key"}, "identity_file must be the path"),
        ({"host": "h", "known_hosts": "/no/such/file"}, "known_hosts must be the path"),
        ({"host": "h", "known_hosts": 3}, "known_hosts must be a text"),
        ({"environment": "A=b"}, "environment must be an object of names and values"),
        ({"environment": {"A B": "c"}}, "'A B' in the option environment is not a valid variable name"),
        ({"environment": {"TZ": 1}}, "TZ in the option environment must be a text"),
        ({"environment": {"TZ": "b\nc"}}, "in one line"),
        ({"programs": "bin"}, "programs must be the absolute path of a directory"),
    ],
)
def test_a_wrong_option_is_one_sentence(wrong: Mapping[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=words):
        commands_of(wrong, directory=tmp_path)


def test_an_unknown_host_key_is_refused(sshd: SSHHost, short: Path) -> None:
    unknown = {**sshd.options, "known_hosts": sshd.host_key.replace("127.0.0.1", "elsewhere")}
    with pytest.raises(CommandLostError, match=rf"not known: give the lines of `ssh-keyscan -p {sshd.port} 127.0.0.1`"):
        commands(unknown, short / "ce").run(["true"])


def test_a_changed_host_key_is_refused(sshd: SSHHost, tmp_path: Path, short: Path) -> None:
    make_key(tmp_path / "other")
    changed = {**sshd.options, "known_hosts": known_host(sshd.port, tmp_path / "other")}
    with pytest.raises(CommandLostError, match="differs from the known one"):
        commands(changed, short / "ce").run(["true"])


def test_host_keys_may_be_in_a_file_that_the_site_keeps(sshd: SSHHost, tmp_path: Path, short: Path) -> None:
    file = tmp_path / "hosts of 100%"
    file.write_text(f"# ours\n{sshd.host_key}\n")
    assert commands({**sshd.options, "known_hosts": str(file)}, short / "ce").run(["echo", "in"]) == "in\n"


def test_a_refused_user_key_is_one_sentence(sshd: SSHHost, tmp_path: Path, short: Path) -> None:
    make_key(tmp_path / "other")
    with pytest.raises(CommandLostError, match="denies access: check the options user and identity_file"):
        commands({**sshd.options, "identity_file": str(tmp_path / "other")}, short / "ce").run(["true"])


def test_an_unreachable_host_is_one_sentence(tmp_path: Path, short: Path) -> None:
    (tmp_path / "sshd").mkdir()
    with ssh_host(tmp_path / "sshd") as host:
        there = commands(host.options, short / "ce")
        assert there.run(["echo", "up"]) == "up\n"
    with pytest.raises(CommandLostError, match=r"^127\.0\.0\.1 cannot be reached.*Connection refused$"):
        there.run(["true"])


def test_commands_share_one_connection_whoever_runs_them(sshd: SSHHost, short: Path) -> None:
    origins = {commands(sshd.options, short / "ce").run(["sh", "-c", "echo $SSH_CONNECTION"]) for _ in range(3)}
    assert len(origins) == 1
    assert (short / "ce").stat().st_mode & 0o777 == 0o700
    other = commands({**sshd.options, "user": sshd.user, "known_hosts": f"# new\n{sshd.host_key}"}, short / "ce")
    assert other.run(["sh", "-c", "echo $SSH_CONNECTION"]) not in origins


def test_a_long_socket_path_is_replaced_by_a_short_one(
    sshd: SSHHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    origin = ["sh", "-c", "echo $SSH_CONNECTION"]
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    there = commands(sshd.options, deep)
    try:
        assert there.run(origin) == there.run(origin)
        (place,) = Path("/tmp").glob(f"wms-ssh-{os.getuid()}-{short_name(deep)}")
        assert place.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(Path("/tmp", f"wms-ssh-{os.getuid()}-{short_name(deep)}"), ignore_errors=True)

    # Without any each command has a connection of its own.
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(deep))
    assert there.run(origin) != there.run(origin)


def short_name(directory: Path) -> str:
    return _digest(str(directory))
