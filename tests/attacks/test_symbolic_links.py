"""Payloads that create links and special files where their more privileged pilot later reads and writes."""

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.job import sandbox, user_helper
from tests.agent.running import ORDINARY_USER
from tests.agent.scripted import ScriptedServer
from tests.attacks.payloads import Start

#: Pilots are started under several accounts.
pytestmark = pytest.mark.root

#: As the runtime of containers, without a container.
RUNTIME = """#!/usr/bin/python3
import os, sys
if "--version" in sys.argv:
    print("apptainer version 1.3")
    sys.exit(0)
os.execv("/bin/sh", sys.argv[sys.argv.index("/bin/sh"):])
"""


@pytest.fixture(params=["root", "namespaces"])
def node(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def secret(node: str, directory: Path) -> Path:
    """Return a file that the pilot may read and its payloads may not."""
    secret = directory / "closed" / "secret"
    secret.parent.mkdir()
    secret.write_text("of the pilot\n")
    secret.chmod(0o600)
    for each in (secret, secret.parent):
        shutil.chown(each, "root" if node == "root" else ORDINARY_USER)
    return secret


def test_a_link_in_place_of_the_job_directory_is_not_followed(
    server: ScriptedServer, start_as: Start, node: str, secret: Path
) -> None:
    swap = f"cd ..; echo begun; mv job away; ln -s {secret.parent} job"
    server.add_job("/bin/sh", f"-c '{swap}'", output_sandbox=["secret", "away"])

    agent = start_as(node=node)

    assert agent.wait() == 0, agent.log
    assert server.lease.files()["std.out"] == "begun\n"
    assert "secret" not in server.lease.files()


@pytest.mark.parametrize("name", ["pilot/output.tar.gz", "pilot"])
def test_pilot_archives_are_not_written_through_links(
    server: ScriptedServer, start_as: Start, node: str, secret: Path, name: str
) -> None:
    (secret.parent / "output.tar.gz").write_text("of the pilot\n")
    shutil.chown(secret.parent / "output.tar.gz", secret.owner())
    target = secret if name.endswith("gz") else secret.parent
    server.add_job("/bin/sh", f"-c 'cd ..; mv {name} away; ln -s {target} {name}; exit 0'")

    agent = start_as(node=node)

    assert agent.wait() == 0, agent.log
    assert server.lease.finished
    assert [each.read_text() for each in secret.parent.iterdir()] == ["of the pilot\n"] * 2


def test_a_fifo_does_not_block_the_pilot(server: ScriptedServer, start_as: Start, node: str) -> None:
    fifos = "mkfifo ../pilot/output.tar.gz; rm std.err; mkfifo std.err pipe"
    server.add_job("/bin/sh", f"-c '{fifos}; exit 0'", output_sandbox=["pipe"])

    agent = start_as(node=node)

    assert agent.wait() == 0, agent.log
    assert set(server.lease.files()) == {"std.out"}


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_the_container_error_is_not_read_through_a_link(
    server: ScriptedServer, start_as: Start, node: str, secret: Path, directory: Path, kind: str
) -> None:
    runtime = directory / "bin" / "apptainer"
    runtime.parent.mkdir()
    runtime.write_text(RUNTIME)
    runtime.chmod(0o755)
    (directory / "image.sif").touch()
    server.configuration["place"]["container"] = True
    make = {"link": f"ln -s {secret} std.err", "fifo": "mkfifo std.err"}[kind]
    unbegun = 'for mark in ../tools/container-begun ../../../tools/container-begun; do truncate -c -s 0 "$mark"; done'
    server.add_job(
        "/bin/sh",
        f"-c '{unbegun} 2> /dev/null; rm std.err; {make}; exit 3'",
        container=str(directory / "image.sif"),
    )

    agent = start_as(
        "--show", str(runtime.parent), "--show", str(directory / "image.sif"),
        node=node, environment={"PATH": f"{runtime.parent}:/usr/bin:/bin"},
    )  # fmt: skip

    assert agent.wait() == 0, agent.log
    assert server.lease.finished
    assert server.lease.finished["minor_status"] == "The container could not be started"
    assert "of the pilot" not in str(server.flaws)


def test_removal_does_not_follow_links_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root removes what a payload left; another one, which may write in there, replaces each directory that it sees."""
    mine, left = tmp_path / "of-somebody-else", tmp_path / "left"
    (mine / "directory").mkdir(parents=True)
    (mine / "directory" / "file").write_text("x")
    mine.chmod(0o755)
    for number in range(5):
        (left / f"{number}" / "inner" / "innermost").mkdir(parents=True)
    replaced: list[Path] = []
    at_it = False

    def replace_after(call: str) -> None:
        real = getattr(os, call)

        def act(*words: Any, **more: Any) -> Any:
            nonlocal at_it
            try:
                return real(*words, **more)
            finally:
                if not at_it:
                    at_it = True
                    replace_one()
                    at_it = False

        monkeypatch.setattr(os, call, act)

    def replace_one() -> None:
        for base, names, _ in os.walk(left, topdown=False):
            for directory in [Path(base, name) for name in names if not Path(base, name).is_symlink()]:
                directory.rename(tmp_path / f"stash-{len(replaced)}")
                directory.symlink_to(mine)
                replaced.append(directory)
                return

    for call in ("rename", "lstat", "open", "chmod"):
        replace_after(call)
    user_helper.remove_tree(str(left))
    monkeypatch.undo()

    assert replaced
    assert (mine / "directory" / "file").read_text() == "x"
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755


def test_output_is_not_read_through_links_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else of the payload's account replaces a directory between a look at it and its opening."""
    job, closed = tmp_path / "job", tmp_path / "closed"
    for directory in (job / "results", closed):
        directory.mkdir(parents=True)
        (directory / "secret").write_text(directory.name)
    real = os.open

    def replace_and_open(*words: Any, **more: Any) -> int:
        if not (job / "results").is_symlink():
            (job / "results").rename(tmp_path / "stash")
            (job / "results").symlink_to(closed)
        return real(*words, **more)

    monkeypatch.setattr(os, "open", replace_and_open)
    assert sandbox.open_inside(job / "results" / "secret", job) is None
