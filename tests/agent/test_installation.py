"""The script by which a pilot installs itself: it finds a Python, fetches the agent, and runs nothing else."""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pilots.agent_package import agent_package
from pilots.backends.interface import BatchRequest, PilotOrder
from pilots.backends.script import pilot_script, site_script
from tests.agent.running import INTERPRETERS
from tests.agent.scripted import DROP, Download, ScriptedServer, ScriptedTLSServer
from tests.pace import within
from tests.programs import needed

SECRET = "wmsr_only-once"
SHELLS = ["dash", "bash", "busybox sh"]
#: No benchmark, and no waiting for a second job.
QUICK = ("--speed", "1", "--max-idle-s", "0")
TOO_OLD = sorted(path for minor in (6, 7, 8) for path in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))

Ended = subprocess.CompletedProcess[str]


def order(stamp: str = "wms-0f1e") -> PilotOrder:
    place = {"vo": "lhcb", "site": "LCG.Test.org", "ce": "ce1", "queue": "grid"}
    return PilotOrder(stamp=stamp, secret=SECRET, slot=BatchRequest(queue="grid"), **place)


class Node:
    """A directory where a script is run as a batch system or a person would."""

    def __init__(self, directory: Path) -> None:
        self.home, self.scratch, self.bin = directory / "home", directory / "scratch", directory / "bin"
        for made in (self.home, self.scratch, self.bin):
            made.mkdir()
        self.secret = self.home / "secret"
        self.secret.write_text(f"{SECRET}\n")
        self.secret.chmod(0o600)
        #: What the site script is given beside its own.
        self.place = ("--vo", "lhcb", "--site", "LCG.Test.org", "--ce", "ce1", "--queue", "grid")

    def run(self, script: str, *arguments: str, shell: str = "sh", path: str | None = None) -> Ended:
        """Run the script from a file, as a batch system does."""
        (self.home / "pilot").write_text(script)
        return self._run([*shell.split(), "pilot", *arguments], path=path)

    def pipe(self, script: str, *arguments: str, shell: str = "sh") -> Ended:
        """Run the script as ``curl … | sh -s -- …`` does."""
        return self._run([*shell.split(), "-s", "--", *arguments], said=script)

    def _run(self, command: Sequence[str], *, path: str | None = None, said: str = "") -> Ended:
        program = shutil.which(command[0])
        assert program is not None
        return subprocess.run(
            [program, *command[1:]],
            cwd=self.home,
            env={"PATH": os.environ["PATH"] if path is None else path, "TMPDIR": str(self.scratch)},
            input=said,
            capture_output=True,
            text=True,
            timeout=within(60),
            check=False,
        )

    @property
    def left(self) -> set[str]:
        """Return the files in the directory, without the script."""
        return {path.name for place in (self.home, self.scratch) for path in place.iterdir()} - {"pilot"}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_pilot_installs_itself_and_leaves_nothing(server: ScriptedServer, node: Node, shell: str) -> None:
    needed(shell.partition(" ")[0])
    server.add_job("/bin/echo", "ran")

    ended = node.run(pilot_script(order(), server_url=server.url, secret_file="secret", more=QUICK), shell=shell)

    assert ended.returncode == 0, ended.stdout
    assert server.lease.files()["std.out"] == "ran\n"
    assert server.requests_to("/register/")[0].token == SECRET
    assert server.requests_to("/register/")[0].body["stamp"] == "wms-0f1e"
    assert server.node_reports[0]["batch_id"] == "wms-0f1e"
    assert node.left == set()


def test_a_pilot_that_is_started_again_fetches_nothing(server: ScriptedServer, node: Node) -> None:
    node.secret.unlink()  # as the first one did

    ended = node.run(pilot_script(order(), server_url=server.url, secret_file="secret", more=QUICK))

    assert ended.returncode == 2, ended.stdout
    assert ended.stdout == "The token file secret does not exist; name another one.\n"
    assert server.seen == []
    assert node.left == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_site_starts_a_pilot_by_one_line(server: ScriptedServer, node: Node, shell: str) -> None:
    needed(shell.partition(" ")[0])
    server.add_job("/bin/echo", "ran")

    ended = node.pipe(
        site_script(server_url=server.url), *node.place, "--token-file", "secret", *QUICK, "--tag", "a b", shell=shell
    )

    assert ended.returncode == 0, ended.stdout
    assert server.lease.files()["std.out"] == "ran\n"
    register = server.requests_to("/register/")[0].body
    assert {name: register[name] for name in ("vo", "site", "ce", "queue")} == {
        "vo": "lhcb",
        "site": "LCG.Test.org",
        "ce": "ce1",
        "queue": "grid",
    }
    assert server.requests_to("/matches/")[0].body["tags"] == ["a b"]
    assert node.left == {"secret"}


@pytest.mark.parametrize(
    ("wrong", "exit_code"),
    [
        ("--max-jobs=0", 2),
        ("--help", 0),
        ("--token-file=/absent", 2),
        ("--patience-s=soon", 2),
        ("--patience-s=nan", 2),
        ("--server=wms.example.org", 2),
        ("--server=", 2),
        ("--server=http://192.0.2.1", 2),  # in clear
        ("--ca", 2),
    ],
)
def test_wrong_usage_leaves_no_files(server: ScriptedServer, node: Node, wrong: str, exit_code: int) -> None:
    ended = node.run(site_script(server_url=server.url), *node.place, "--token-file", "secret", wrong)

    assert ended.returncode == exit_code
    assert "Traceback" not in ended.stdout
    assert node.left == {"secret"}


def test_names_with_blanks_and_quotes_are_quoted(server: ScriptedServer, node: Node) -> None:
    script = pilot_script(order("wms-$(touch hurt) 'x'"), server_url=server.url, secret_file="secret", more=QUICK)

    assert node.run(script).returncode == 0
    assert server.requests_to("/register/")[0].body["stamp"] == "wms-$(touch hurt) 'x'"
    assert node.left == set()


def test_there_is_no_secret_in_a_script(server: ScriptedServer) -> None:
    assert SECRET not in pilot_script(order(), server_url=server.url, secret_file="secret")


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.99])
def test_a_script_that_is_cut_off_does_nothing(server: ScriptedServer, node: Node, part: float) -> None:
    script = site_script(server_url=server.url)

    node.pipe(script[: int(len(script) * part)], *node.place, "--token-file", "secret", *QUICK)

    assert server.seen == []
    assert node.left == {"secret"}


# ---- what is fetched


def _announced(content: bytes, **more: int) -> Download:
    return Download(content=content, sha256=hashlib.sha256(content).hexdigest(), **more)


@pytest.mark.parametrize(
    ("answer", "exit_code", "sentence"),
    [
        (Download(content=agent_package().content + b"x", sha256=agent_package().sha256), 3, "arrived damaged"),
        (_announced(agent_package().content, sent_bytes=1000), 3, "IncompleteRead"),
        (
            Download(content=b"<html>log in here</html>", sha256=None),
            3,
            "server is not a workload management system",
        ),
        (404, 1, "the server answered 404"),
        (503, 3, "the server answered 503"),
        (DROP, 3, "could not be fetched"),
    ],
)
def test_a_download_with_a_wrong_digest_is_never_run(
    server: ScriptedServer, node: Node, answer: object, exit_code: int, sentence: str
) -> None:
    server.script("/agent.pyz", answer if isinstance(answer, (int, str)) else (200, answer))

    ended = node.run(
        pilot_script(order(), server_url=server.url, secret_file="secret", more=("--patience-s", "0", *QUICK))
    )

    assert ended.returncode == exit_code
    assert sentence in ended.stdout
    assert len(ended.stdout.splitlines()) == 1
    assert [seen.path for seen in server.seen] == ["/api/v1/pilots/agent.pyz"]
    assert node.left == {"secret"}


def test_a_download_that_fails_is_tried_again(server: ScriptedServer, node: Node) -> None:
    server.script("/agent.pyz", 503, (200, _announced(agent_package().content, sent_bytes=1000)))
    server.add_job("true")

    ended = node.run(pilot_script(order(), server_url=server.url, secret_file="secret", more=QUICK))

    assert ended.returncode == 0, ended.stdout
    assert server.lease.finished is not None


def test_a_pilot_that_waited_while_the_server_was_upgraded_runs_the_new_agent(
    server: ScriptedServer, node: Node
) -> None:
    script = pilot_script(order(), server_url=server.url, secret_file="secret")
    server.script("/agent.pyz", (200, _announced(b"import sys; print('of tomorrow', *sys.argv[1:3])")))

    assert node.run(script).stdout == "of tomorrow --remove-program --server\n"


def test_an_unreachable_server_is_one_sentence(node: Node) -> None:
    script = pilot_script(
        order(), server_url="http://127.0.0.1:9", secret_file="secret", more=("--patience-s", "0", *QUICK)
    )

    ended = node.run(script)

    assert ended.returncode == 3
    assert ended.stdout.startswith(
        "The pilot agent could not be fetched from http://127.0.0.1:9/api/v1/pilots/agent.pyz:"
    )
    assert len(ended.stdout.splitlines()) == 1


def test_the_certificates_of_a_site_are_trusted_by_the_installer_and_the_agent(node: Node, tmp_path: Path) -> None:
    with ScriptedTLSServer(tmp_path) as server:
        server.add_job("/bin/echo", "ran")
        script = site_script(server_url=server.url)
        stranger = node.run(script, *node.place, "--token-file", "secret", *QUICK)
        certified = node.run(script, *node.place, "--token-file", "secret", "--ca", str(server.certificate), *QUICK)
        nonsense = node.run(script, *node.place, "--token-file", "secret", "--ca", "/absent.pem", *QUICK)

    assert stranger.returncode == 3
    assert "name the certificates to trust with --ca" in stranger.stdout
    assert certified.returncode == 0, certified.stdout
    assert server.lease.files()["std.out"] == "ran\n"
    assert nonsense.returncode == 2
    assert nonsense.stdout.startswith("The certificates /absent.pem cannot be read:")


# ---- the Python


def test_a_node_without_python_gets_an_error_message(server: ScriptedServer, node: Node) -> None:
    ended = node.run(site_script(server_url=server.url), path=str(node.bin))

    assert (ended.returncode, ended.stdout) == (
        1,
        "A pilot needs Python 3.9 or newer with SSL; this node has none.\n",
    )
    assert server.seen == []


def _link(node: Node, name: str, python: str) -> None:
    # A script, not a link: an interpreter looks for its library where it is called.
    program = node.bin / name
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
    program.chmod(0o755)


@pytest.mark.skipif(not TOO_OLD, reason="there is no old Python here")
def test_a_python_that_is_too_old_is_skipped(server: ScriptedServer, node: Node) -> None:
    _link(node, "python3", str(TOO_OLD[-1]))
    tools = ":".join([str(node.bin), "/nonexistent"])
    script = pilot_script(order(), server_url=server.url, secret_file="secret", more=QUICK)
    alone = node.run(script, path=tools)
    _link(node, "python3.11", sys.executable)
    beside = node.run(script, path=tools)

    assert alone.returncode == 1
    assert "Python 3.9 or newer" in alone.stdout
    assert beside.returncode == 0, beside.stdout


def test_the_interpreter_of_a_ce_is_tried_first(server: ScriptedServer, node: Node) -> None:
    _link(node, "its own", sys.executable)
    script = pilot_script(
        order(), server_url=server.url, secret_file="secret", more=QUICK, python=str(node.bin / "its own")
    )

    ended = node.run(script, path="/nonexistent")

    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("python", INTERPRETERS)
def test_every_interpreter_of_this_machine_installs_the_agent(server: ScriptedServer, node: Node, python: str) -> None:
    server.add_job("true")
    script = pilot_script(order(), server_url=server.url, secret_file="secret", more=QUICK, python=python)

    ended = node.run(script)

    assert ended.returncode == 0, ended.stdout
    assert f"Python {_version(python)})" in server.requests_to("/matches/")[0].user_agent
    assert server.lease.finished is not None


@pytest.mark.parametrize("python", TOO_OLD, ids=lambda path: path.parts[-3])
def test_the_agent_names_the_required_python_to_an_older_one(tmp_path: Path, python: Path) -> None:
    program = tmp_path / "agent.pyz"
    program.write_bytes(agent_package().content)

    ended = subprocess.run([python, program], capture_output=True, text=True, check=False, timeout=within(60))

    assert ended.returncode == 1
    assert ended.stderr.startswith("The pilot agent needs Python 3.9 or newer; this is 3.")
    assert len(ended.stderr.splitlines()) == 1


def _version(python: str) -> str:
    told = "import platform; print(platform.python_version())"
    return subprocess.run([python, "-c", told], capture_output=True, text=True, check=True).stdout.strip()
