"""The broker ends under the whole system: its background work stops for as long, and nothing is lost."""

import http.client
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.pilots.grid import SETTINGS, System, running_system, until
from tests.pace import within
from tests.programs import directory_of_payloads
from wms.stack.binaries import find_valkey
from wms.stack.servers import ValkeyServer, environment_of_server

#: As long as the outage and more.
_LEASE = {"WMS_LEASE_FIRST_S": "200", "WMS_LEASE_S": "200", "WMS_PILOT_LOST_S": "200"}


@dataclass(frozen=True, kw_only=True)
class OneHost:
    """A local CE as the only resource."""

    directory: Path

    def configuration(self) -> Mapping[str, Any]:
        """Return the configuration."""
        queue = {"name": "main", "cpu_time_s": 5000, "memory_mb": 500, "max_waiting_pilots": 4, "max_pilots": 4}
        ce = {"name": "ce", "type": "local", "options": {"node_processors": 1, "max_idle_s": 5}, "queues": [queue]}
        return {
            "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
            "groups": [{"name": "physics", "vo": "lhcb", "priority": 1000}],
            "users": [{"username": "alice", "password": "alice-of-the-tests", "groups": ["physics"]}],
            "sites": [{"name": "LCG.Here.org", "ces": [ce]}],
        }


class Broker:
    """A Valkey server that is not a part of `up`."""

    def __init__(self, sockets: Path) -> None:
        self._server = ValkeyServer(program=find_valkey(), sockets=sockets)
        self.url = self._server.url()
        self.start()

    def start(self) -> None:
        """Start it, with nothing of what it had before."""
        quiet = subprocess.DEVNULL
        variables = environment_of_server()
        self._process = subprocess.Popen(self._server.command(), env=variables, stdout=quiet, stderr=quiet)
        until(self._server.is_ready)

    def stop(self, number: signal.Signals) -> None:
        """End it by a signal."""
        self._process.send_signal(number)
        self._process.wait(timeout=within(30))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="broker-", dir="/tmp") as sockets:
        started = Broker(Path(sockets))
        yield started
        started.stop(signal.SIGKILL)


@pytest.fixture
def payloads() -> Iterator[Path]:
    with directory_of_payloads() as directory:
        yield directory


def test_an_outage_of_the_broker_loses_no_job_and_all_goes_on(tmp_path: Path, broker: Broker, payloads: Path) -> None:
    def submitted(name: str, *, until_file: str = "") -> int:
        wait = f"until test -e {payloads / until_file}; do sleep 0.2; done; " if until_file else ""
        (job_id,) = system.submit("alice", _shell(f"mktemp {payloads}/{name}-XXXXXX; {wait}echo done"))
        return job_id

    with running_system(OneHost(directory=tmp_path), SETTINGS | _LEASE | {"WMS_REDIS_URL": broker.url}) as system:
        ends_meanwhile = submitted("a", until_file="broker-is-down")
        ends_later = submitted("b", until_file="broker-is-back")
        _become(system, [ends_meanwhile, ends_later], "Running")

        broker.stop(signal.SIGKILL)
        until(lambda: "broker" in _down(system), what=lambda: _down(system))
        (payloads / "broker-is-down").touch()
        comes_meanwhile = [submitted("c"), submitted("d")]
        _become(system, [ends_meanwhile], "Done")

        broker.start()
        comes_later = submitted("e")
        # Directors, beat and workers are at work again: idle pilots leave soon, and new ones are sent.
        until(lambda: not _down(system), what=lambda: _down(system))
        _become(system, [*comes_meanwhile, comes_later], "Done")
        (payloads / "broker-is-back").touch()
        _become(system, [ends_later], "Done")
        until(lambda: not system.living_pilots(), what=system.living_pilots)
        pilots = len(system.rows("SELECT id FROM pilots_pilot"))
        last = submitted("f")
        _become(system, [last], "Done")

        assert len(system.rows("SELECT id FROM pilots_pilot")) > pilots
        assert sorted(file.name[0] for file in payloads.glob("?-*")) == [*"abcdef"]
        assert {job["reschedules"] for job in system.jobs().values()} == {0}
        verified = system.verify()
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert system.stop() == 0


def _become(system: System, jobs: Sequence[int], status: str) -> None:
    until(lambda: all(system.jobs()[job]["status"] == status for job in jobs), what=system.jobs)


def _shell(script: str) -> Mapping[str, object]:
    return {"executable": "/bin/sh", "arguments": ["-c", script], "cpu_time_s": 500}


def _down(system: System) -> set[str]:
    """Return the parts of the system that `/readyz` reports as down."""
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=within(60))
    try:
        connection.request("GET", "/readyz")
        parts: dict[str, str] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return {name for name, state in parts.items() if state == "down"}
