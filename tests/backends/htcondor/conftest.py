"""One HTCondor pool for all tests of a worker, and a CE of it for each test."""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest

from pilots.backends.htcondor import HTCondorBackend
from pilots.backends.interface import BatchRequest, BatchState, CEDescription, Handle, PilotOrder, Presence
from tests.backends.htcondor.pool import Pool, htcondor_pool
from tests.pace import wait_for
from tests.serving import LoopbackServer

NONE: Mapping[str, object] = MappingProxyType({})
#: Stands in for the agent: tells what it was given, then does what its queue is called.
_PROGRAM = """
import os, signal, sys, time
def given(name):
    return sys.argv[sys.argv.index(name) + 1]
with open(given("--token-file")) as file:
    print("backwards", file.readline().strip()[::-1], oct(os.fstat(file.fileno()).st_mode & 0o777))
os.remove(given("--token-file"))
print("arguments", *sys.argv[1:])
what = given("--queue")
if what == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").close())
print("ready", flush=True)
open("ready", "w").close()
if what.startswith("exit"):
    sys.exit(int(what[4:]))
if what == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    time.sleep(600)
"""


class _Handler(BaseHTTPRequestHandler):
    """A handler that serves the agent."""

    def do_GET(self) -> None:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("__main__.py", _PROGRAM)
        self.send_response(200 if self.path == "/api/v1/pilots/agent.pyz" else 404)
        self.send_header("X-Agent-SHA256", hashlib.sha256(content.getvalue()).hexdigest())
        self.end_headers()
        self.wfile.write(content.getvalue())

    def log_message(self, *_: object) -> None:
        """Write no log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CE:
    """A CE of the pool under a name of its own, with the steps of tests."""

    pool: Pool
    description: CEDescription

    def backend(self, **options: object) -> HTCondorBackend:
        """Return a new backend, as each round makes one."""
        given = {**self.description.options, **options}
        return HTCondorBackend(replace(self.description, options=given))

    def order(self, queue: str = "sleep", **slot: Any) -> PilotOrder:
        """Return the batch request of a pilot that does what the queue's name says."""
        return PilotOrder(
            stamp=uuid4().hex, secret=f"wmsr_{uuid4().hex}", vo="lhcb", site=self.description.site,
            ce=self.description.ce, queue=queue, slot=BatchRequest(**{"queue": queue, **slot}),
        )  # fmt: skip

    def start(self, queue: str = "sleep", *, options: Mapping[str, object] = NONE, **slot: Any) -> Handle:
        """Submit a pilot."""
        wanted = self.order(queue, **slot)
        (submission,) = self.backend(**options).submit([wanted])
        assert submission.error == ""
        assert submission.batch_id
        return Handle(stamp=wanted.stamp, batch_id=submission.batch_id)

    def state(self, handle: Handle) -> BatchState:
        return self.backend().status([handle]).get(handle.stamp, BatchState(presence=Presence.UNKNOWN))

    def reach(self, presence: Presence, handle: Handle) -> BatchState:
        """Wait until the pilot is in one of these states; return the state."""
        last: list[BatchState] = []

        def is_there() -> bool:
            last[:] = [self.state(handle)]
            return last[0].presence is presence

        wait_for(is_there, state=lambda: last)
        return last[0]

    def run_until_ready(self, queue: str = "sleep", **slot: Any) -> Handle:
        """Submit a pilot and wait until its work, named by the queue, has begun."""
        handle = self.start(queue, **slot)
        wait_for(lambda: self.is_ready(handle))
        self.reach(Presence.RUNNING, handle)
        return handle

    def is_ready(self, handle: Handle) -> bool:
        return self.has_noted(handle, "ready")

    def has_noted(self, handle: Handle, name: str) -> bool:
        """Return whether the pilot has written a file of this name on its node."""
        return any((process / "cwd" / name).exists() for process in self.processes_of(handle))

    def processes_of(self, handle: Handle) -> list[Path]:
        """Return the processes of this pilot on its node."""
        found = []
        for process in self.pool.processes():
            try:
                if f"{handle.stamp}.pyz" in process.joinpath("cmdline").read_text():
                    found.append(process)
            except OSError:
                continue
        return found


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with htcondor_pool(tmp_path_factory.mktemp("pool")) as started:
        yield started


@pytest.fixture(scope="session")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(_Handler) as started:
        yield started


@pytest.fixture
def ce(pool: Pool, server: LoopbackServer, tmp_path: Path) -> Iterator[CE]:
    """Yield a CE without pilots; all machines of the pool are free."""
    description = CEDescription(
        site="CERN", ce=f"ce-{uuid4().hex[:8]}", options={"programs": str(pool.programs)}, directory=tmp_path / "ce",
        server_url=server.url,
    )  # fmt: skip
    yield CE(pool=pool, description=description)

    def is_empty() -> bool:
        if pool.jobs("JobStatus != 3"):
            with suppress(AssertionError):  # the last of them has ended in this moment
                pool.run("condor_rm", "-all")
        return pool.jobs() == []

    wait_for(is_empty)
    wait_for(lambda: "Claimed" not in pool.run("condor_status", "-af", "State").split())
