"""A real Prometheus scrapes a real system, and runs every query of the alert rules and the dashboard there."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import pytest
import yaml

from tests.end_to_end.stack.running import PROJECT, free_port, manage, running_up
from tests.pace import wait_for, within
from tests.programs import needed

MONITORING: Final = PROJECT / "docs" / "monitoring"


class Prometheus:
    """A Prometheus at its own port of loopback."""

    def __init__(self, directory: Path, *, target: str, token: Path) -> None:
        self.port = free_port()
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "alerts.yaml")],
            "scrape_configs": [
                {
                    "job_name": "wms",
                    "authorization": {"credentials_file": str(token)},
                    "static_configs": [{"targets": [target]}],
                }
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        self.log = directory / "prometheus.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={file}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(10))
        try:
            connection.request("GET", path)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer

    def ask(self, query: str) -> list[Any]:
        """Return the results of a query; [] also while Prometheus is not ready yet."""
        try:
            answer = self.get(f"/api/v1/query?query={quote(query)}")
        except (OSError, ValueError):  # it answers in words that it is not
            return []
        assert answer["status"] == "success", (query, answer)
        return list(answer["data"]["result"])

    def rules(self) -> list[dict[str, Any]]:
        (group,) = self.get("/api/v1/rules")["data"]["groups"]
        return list(group["rules"])

    def number(self, query: str) -> float | None:
        result = self.ask(query)
        return float(result[0]["value"][1]) if result else None


@pytest.fixture
def up(tmp_path: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Return a running system with two web processes, and its port."""
    needed("prometheus")
    port = free_port()
    command = manage("up", "--port", str(port), "--data-dir", str(tmp_path / "data"), "--web-workers", "2")
    with running_up(command, tmp_path / "up.log") as process:
        yield process, port


@pytest.fixture
def prometheus(tmp_path: Path, up: tuple[psutil.Process, int]) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path, target=f"127.0.0.1:{up[1]}", token=tmp_path / "data" / "metrics_token")
    yield prometheus
    prometheus.process.kill()
    prometheus.process.wait()


def test_prometheus_scrapes_the_system_and_runs_every_query(
    prometheus: Prometheus, up: tuple[psutil.Process, int]
) -> None:
    gauges = (
        "wms_database_size_bytes",
        "wms_database_connections",
        "wms_disk_free_bytes",
        'wms_waiting_tasks{queue="sites"}',
        'wms_last_run_timestamp_seconds{part="directors"}',
    )
    wait_for(lambda: all(map(prometheus.ask, gauges)), 180, state=prometheus.log.read_text)
    assert prometheus.number('up{job="wms"}') == 1

    # Whichever of the web processes answers, the numbers are those of both, and never fall.
    ours = 'wms_requests_total{route="metrics",status="2xx"}'
    before = prometheus.number(ours) or 0.0
    wait_for(lambda: (prometheus.number(ours) or 0.0) >= before + 5, 120)
    assert prometheus.number(f"resets({ours}[1h])") == 0

    wait_for(lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"}, 120)
    for rule in prometheus.rules():
        prometheus.ask(rule["query"])
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            prometheus.ask(target["expr"])
    assert {rule["name"] for rule in prometheus.rules() if rule["state"] == "firing"} == set()

    # Gauges grow old where nobody measures, and counters are answered all the same.
    (worker,) = (each for each in up[0].children() if "control@%h" in each.cmdline())
    age = "time() - wms_measured_timestamp_seconds"
    worker.suspend()
    wait_for(lambda: (prometheus.number(age) or 0.0) > 30, 120)
    assert prometheus.number('up{job="wms"}') == 1
    with suppress(psutil.NoSuchProcess):  # the supervisor has replaced it
        worker.resume()
    wait_for(lambda: (prometheus.number(age) or 60.0) < 20, 180)
