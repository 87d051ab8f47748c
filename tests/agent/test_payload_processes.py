"""The kernel refuses a payload more processes where it counts those of one payload; the watchdog: test_watchdog.py."""

import os
import shlex

import pytest

from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.scripted import ScriptedServer

_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
_FORKS = """
import os, time
for number in range(200):
    try:
        pid = os.fork()
    except BlockingIOError:
        print("refused after", number)
        break
    if not pid:
        time.sleep(1000)
"""


@pytest.mark.parametrize(
    "isolation",
    [
        pytest.param("user id and namespaces", marks=_ROOT),
        pytest.param("user id", marks=_ROOT),
        "namespaces",
    ],
)
def test_a_fork_bomb_meets_a_wall_between_two_looks(
    server: ScriptedServer, start_isolated: StartAgent, isolation: str
) -> None:
    server.configuration["watchdog"] |= {"processes_per_core": 5, "period_s": 1000}
    server.configuration["heartbeat_s"] = 1000
    server.add_job(PYTHON, f"-c {shlex.quote(_FORKS)}")

    start_isolated(isolation)

    output = server.lease.files()["std.out"]
    assert output.startswith("refused after ")
    assert 40 <= int(output.split()[-1]) <= 50
