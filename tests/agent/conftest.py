"""The scripted server, and agents that end with the test that started them."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.data import output_spool
from tests.agent.running import ORDINARY_USER, WITHOUT_NAMESPACES, RunningAgent
from tests.agent.scripted import ScriptedServer
from tests.programs import directory_of_agents

#: Open to every user; the one that runs the tests may be at home with somebody.
PYTHON = "/usr/bin/python3"

StartAgent = Callable[..., RunningAgent]


def kept_archive(server: ScriptedServer, directory: Path, name: str = "output.tar.gz") -> Path:
    """Return the place where the agent keeps an archive of its job that cannot be delivered."""
    spool = output_spool.directory_of(directory / "work", server=server.url)
    return spool / f"job-1-{server.lease.match_id[:8]}-{name}"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return a directory that other users can enter and write to: a root agent runs payloads as other users."""
    with directory_of_agents() as directory:
        yield directory


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def start(server: ScriptedServer, tmp_path: Path) -> Iterator[StartAgent]:
    """Return a function that starts an agent against the scripted server."""
    with ExitStack() as stack:

        def start(*options: str, **more: Any) -> RunningAgent:
            return stack.enter_context(RunningAgent(server.url, tmp_path, *options, **more))

        yield start


@pytest.fixture
def start_plainly(server: ScriptedServer) -> Iterator[StartAgent]:
    """Return a function that starts a pilot as an unprivileged user; root would ignore file permissions."""
    if not Path(PYTHON).exists():
        pytest.skip("no interpreter that every user can run")
    directory = Path(tempfile.mkdtemp(prefix="wms-hostile-", dir="/tmp"))  # pytest's own is closed to others
    directory.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)

        def start(*options: str, **more: Any) -> RunningAgent:
            own: dict[str, Any] = {} if "owner" in more or os.geteuid() != 0 else {"user": ORDINARY_USER}
            return stack.enter_context(
                RunningAgent(server.url, directory, *options, packed=True, python=PYTHON, **own, **more)
            )

        yield start


@pytest.fixture
def start_isolated(server: ScriptedServer, tmp_path: Path) -> Iterator[StartAgent]:
    """Return a function that starts a pilot whose payloads have this isolation."""
    own: dict[str, dict[str, Any]] = {
        "user id and namespaces": {},
        "user id": {"enter": ("setpriv", "--bounding-set", "-sys_admin")},
        "namespaces": {"user": ORDINARY_USER} if os.geteuid() == 0 else {},
        "one payload at a time": _alone(),
    }
    with ExitStack() as stack:

        def start(isolation: str, *, directory: Path = tmp_path, **more: Any) -> RunningAgent:
            more = {**own[isolation], "packed": True, "python": PYTHON, **more}
            agent = stack.enter_context(RunningAgent(server.url, directory, **more))
            assert agent.wait() == 0, agent.log
            assert server.node_reports[0]["node"]["isolation"] == isolation
            return agent

        yield start


def _alone() -> dict[str, Any]:
    """Return how a pilot starts without namespaces, as a user of its own: a second pilot of one would be noticed."""
    uid, nobody = 59_000 + os.getpid() % 1000, "{}:{}".format(*WITHOUT_NAMESPACES["owner"])
    words = [word.replace(nobody, f"{uid}:{uid}") for word in WITHOUT_NAMESPACES["enter"]]
    return {"owner": (uid, uid), "enter": words}
