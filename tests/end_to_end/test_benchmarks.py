"""The benchmarks in small sizes: each runs to its end and reports its figures."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.benchmarks.catalogue import MEASURES
from tests.end_to_end.stack.running import PROJECT, environment
from tests.pace import within

#: DIRAC and MariaDB take a minute to install, and are not wanted on every machine.
NAMES = sorted(MEASURES.keys() - {"dirac"})
SMALL = (
    *("--jobs", "300", "--queues", "20", "--operations", "20", "--leases", "5", "--repeat", "1", "--batch", "20"),
    *("--seconds", "0.5", "--settle", "1", "--pilots", "4", "--idle-pilots", "20", "--processes", "1", "--ces", "20"),
    *("--open-pages", "100"),
)
#: Only ends what hangs.
WITHIN_S = 400


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Run all benchmarks in one process, which starts the servers once; return the report of each."""
    file = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *NAMES, *SMALL, "--json", str(file)],
        cwd=PROJECT,
        # An idle pilot asks again within the second, one with a job reports every second.
        env={**environment(), "WMS_MATCH_RETRY_AFTER_S": "1", "WMS_HEARTBEAT_S": "1"},
        capture_output=True,
        text=True,
        timeout=within(WITHIN_S),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found["machine"]["postgres_fsync"] == found["machine"]["postgres_synchronous_commit"] == "on"
    assert all(name in done.stdout for name in NAMES)
    return {report["benchmark"]: report for report in found["benchmarks"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_its_figures(name: str, reports: Mapping[str, Any]) -> None:
    figures = reports[name]["figures"]

    assert figures
    for figure in figures:
        assert figure["count"] >= 1
        assert 0 < figure["median_ms"] <= figure["p95_ms"] <= figure["p99_ms"] <= figure["longest_ms"]
        assert figure["per_s"] > 0


@pytest.mark.parametrize("name", ["http", "contention"])
def test_the_load_over_http_leases_no_job_twice(name: str, reports: Mapping[str, Any]) -> None:
    facts = reports[name]["facts"]

    assert facts["errors"] == 0
    assert facts["jobs leased twice, by the answers"] == facts["jobs leased twice, by the database"] == 0
    assert facts["cores busy, all"] > 0


def test_the_workload_has_the_size_that_was_asked_for(reports: Mapping[str, Any]) -> None:
    assert reports["match"]["sizes"] == {
        "workload": "uniform",
        "task queues": 20,
        "waiting jobs": 300,
        "open leases": 5,
    }
