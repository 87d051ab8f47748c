"""The stand-in server, and agents that are ended with the test that started them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import RunningAgent
from tests.agent.scripted import ScriptedServer

StartAgent = Callable[..., RunningAgent]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def start(server: ScriptedServer, tmp_path: Path) -> Iterator[StartAgent]:
    """Return what starts an agent against the stand-in."""
    with ExitStack() as stack:

        def start(*options: str, **more: Any) -> RunningAgent:
            return stack.enter_context(RunningAgent(server.url, tmp_path, *options, **more))

        yield start
