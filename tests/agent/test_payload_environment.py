"""The environment of a payload is the documented one, whatever keeps it apart; sudo is in test_identity.py."""

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import StartAgent
from tests.agent.container_nodes import VARIABLE, ContainerNode, apptainer_node, stand_in_node
from tests.agent.running import ORDINARY_USER, WITHOUT_NAMESPACES
from tests.agent.scripted import ScriptedServer
from tests.payload_environment import ARGUMENTS, EXECUTABLE, check_environment, documented

_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
_VIRTUAL = str(Path(sys.prefix, "bin"))


@pytest.fixture
def node(server: ScriptedServer, tmp_path: Path) -> Iterator[ContainerNode]:
    root = os.environ.get(VARIABLE)
    with apptainer_node(server.url, root) if root else stand_in_node(server.url, tmp_path) as made:
        yield made


def test_the_document_has_the_table() -> None:
    assert documented()["PATH"]
    assert not documented()["WMS_GPUS"]


@pytest.mark.parametrize(
    ("isolation", "user"),
    [
        pytest.param("user id and namespaces", "alice", marks=_ROOT),
        pytest.param("user id", "alice", marks=_ROOT),
        ("namespaces", ORDINARY_USER),
        pytest.param("one payload at a time", ORDINARY_USER, marks=_ROOT),
    ],
)
def test_each_isolation_has_the_documented_environment(
    server: ScriptedServer, start: StartAgent, start_plainly: StartAgent, isolation: str, user: str
) -> None:
    server.add_job(EXECUTABLE, ARGUMENTS, processors=2, tags=["WholeNode"], environment={"DIRACSITE": "forged"})
    paths = f"{_VIRTUAL}:relative:/opt/mine/bin:/usr/bin:/usr/sbin"

    agent = {
        "user id and namespaces": lambda: start(environment={"PATH": paths}),
        "user id": lambda: start(environment={"PATH": paths}, enter=("setpriv", "--bounding-set", "-sys_admin")),
        "namespaces": lambda: start_plainly(environment={"PATH": paths}),
        "one payload at a time": lambda: start_plainly(environment={"PATH": paths}, **WITHOUT_NAMESPACES),
    }[isolation]()

    assert agent.wait() == 0, agent.log
    assert server.node_reports[0]["node"]["isolation"] == isolation
    printed = check_environment(
        server.lease.files()["std.out"],
        WMS_PROCESSORS="2", DIRAC_WHOLENODE="True", DIRACSITE="LCG.Test.org", SHELL="/bin/sh", LANG="C.UTF-8",
    )  # fmt: skip
    assert printed["USER"] == (user if os.geteuid() == 0 else pwd.getpwuid(os.getuid()).pw_name)
    if isolation.startswith("user id"):  # only there the pilot's Python is that of the virtual environment
        assert printed["PATH"] == "/opt/mine/bin:/usr/bin:/usr/sbin:/usr/local/bin:/bin"


def test_a_container_has_the_documented_environment(server: ScriptedServer, node: ContainerNode) -> None:
    server.add_job(EXECUTABLE, ARGUMENTS, container=node.image)

    node.start().wait()

    check_environment(server.lease.files()["std.out"], PATH=node.path, DIRAC_WHOLENODE="False")


@_ROOT
def test_path_has_no_directory_that_the_payload_may_not_enter(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    closed, link = tmp_path / "closed", tmp_path / "link"
    closed.mkdir(mode=0o700)
    (closed / "tool").write_text("#!/bin/sh\n")
    (closed / "tool").chmod(0o755)
    link.symlink_to(closed)
    server.add_job("tool")
    server.add_job("true", software=["tool"])

    assert start(environment={"PATH": f"{link}:{closed}:{closed}/tool"}).wait() == 0

    endings = [(lease.finished or {}).get("minor_status") for lease in server.leases]
    assert sorted(map(str, endings)) == ["Executable not found: tool", "Software is missing on the node: tool"]
