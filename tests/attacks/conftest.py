"""Pilots on nodes of three kinds, for hostile payloads; two users of a group, of whom Eve is the hostile one."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import ORDINARY_USER, WITHOUT_NAMESPACES, RunningAgent
from tests.agent.scripted import ScriptedServer
from tests.attacks.payloads import PYTHON, Meeting, Start
from tests.factories import make_group, make_user
from wms.accounts.models import Group, User


@pytest.fixture
def group() -> Group:
    return make_group(name="lhcb_user")


@pytest.fixture
def eve(group: Group) -> User:
    return make_user(username="eve", groups=[group])


@pytest.fixture
def bob(group: Group) -> User:
    return make_user(username="bob", groups=[group])


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        server.configuration["place"] |= {"processors": 4, "memory_mb": 8000, "disk_mb": 1000}
        yield server


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with closing(Meeting()) as meeting:
        yield meeting


@pytest.fixture
def directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="wms-attack-", dir="/tmp"))  # pytest's own is closed to others
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def start_as(server: ScriptedServer, directory: Path) -> Iterator[Start]:
    """Return a function that starts a pilot as root, whose payloads have user ids of their own, or as another user."""
    with ExitStack() as stack:

        def start(*options: str, node: str, **more: Any) -> RunningAgent:
            own: dict[str, Mapping[str, Any]] = {
                "root": {},
                "namespaces": {"user": ORDINARY_USER},
                "neither": WITHOUT_NAMESPACES,
            }
            place = directory / more.pop("stamp", "")
            place.mkdir(exist_ok=True)
            return stack.enter_context(
                RunningAgent(server.url, place, *options, packed=True, python=PYTHON, show=False, **own[node], **more)
            )

        yield start


@pytest.fixture(params=["root", "namespaces"])
def start(request: pytest.FixtureRequest, start_as: Start) -> Start:
    """Return a function that starts a pilot on a node where its payloads may have namespaces of their own."""
    return partial(start_as, node=request.param)
