"""The agent itself in a real pool of HTCondor."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pilots.agent_package import agent_package
from pilots.backends.interface import Handle, Presence
from tests.agent.scripted import ScriptedServer, _Handler
from tests.backends.htcondor.conftest import CE

#: HTCondor runs in a root directory of its own.
pytestmark = pytest.mark.root


class _ServesTheAgent(_Handler):
    """A handler that serves the agent beside the other addresses of pilots."""

    def do_GET(self) -> None:  # noqa: N802 - as its base has it
        if self.path != "/api/v1/pilots/agent.pyz":
            super().do_GET()
            return
        package = agent_package()
        self.send_response(200)
        self.send_header("X-Agent-SHA256", package.sha256)
        self.send_header("Content-Length", str(len(package.content)))
        self.end_headers()
        self.wfile.write(package.content)


class _Server(ScriptedServer):
    def _handler(self) -> type[_Handler]:
        return type("_HandlerOfServer", (_ServesTheAgent,), {"scripted": self})


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with _Server() as server:
        yield server


def test_a_pilot_runs_jobs_where_htcondor_put_it(ce: CE, scripted: ScriptedServer) -> None:
    scripted.add_job("/bin/sh", "-c pwd")
    there = CE(pool=ce.pool, description=replace(ce.description, server_url=scripted.url))
    scripted.configuration["place"] |= {"site": ce.description.site, "ce": ce.description.ce, "queue": "sleep"}
    handle: Handle = there.start(memory_mb=200)

    scripted.wait_until(lambda: scripted.leases and scripted.lease.finished, timeout_s=60)

    assert scripted.lease.finished is not None
    assert scripted.lease.finished["exit_code"] == 0
    assert scripted.lease.files()["std.out"].startswith("/srv/pool/execute/dir_")
    there.backend().kill([handle])
    there.reach(Presence.ENDED, handle)
