"""The alert rules, their tests, the dashboard and the page on monitoring speak of the metrics that there are."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.programs import needed
from wms.kernel.counters import COUNTERS
from wms.operations.exposition import MEASURED_AT
from wms.operations.gauges import GAUGES

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
MONITORING: Final = DOCS / "monitoring"
PAGE: Final = (DOCS / "monitoring.md").read_text(encoding="utf-8")
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD: Final[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
#: Labels that Prometheus adds, and that of the buckets.
OTHERS: Final = frozenset({"instance", "job", "le"})


def labels_of_series() -> dict[str, frozenset[str]]:
    """Return {name of a series: names of its labels}."""
    series = {MEASURED_AT: frozenset[str](), **{gauge.name: frozenset(gauge.labels) for gauge in GAUGES}}
    for counter in COUNTERS:
        (family,) = counter.describe()
        suffixes = ("_total",) if family.type == "counter" else ("_bucket", "_sum", "_count")
        series |= {f"{family.name}{suffix}": frozenset(counter._labelnames) for suffix in suffixes}
    return series


def queries() -> Iterator[tuple[str, str]]:
    """Yield the queries of rules and dashboard, each with the texts that use its labels."""
    for rule in RULES:
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def test_every_query_uses_series_and_labels_that_there_are() -> None:
    series = labels_of_series()
    for query, text in queries():
        used = set(re.findall(r"\bwms_\w+", query))
        assert used <= set(series), query
        known = frozenset().union(*(series[name] for name in used), OTHERS)
        named = set(re.findall(r"(\w+)(?:=~?|!~?)\"", query)) | set(re.findall(r"{{ ?(?:\$labels\.)?(\w+) ?}}", text))
        named |= {word for words in re.findall(r"(?:by|on) \(([^)]*)\)", query) for word in re.findall(r"\w+", words)}
        assert named <= known, query


def test_every_series_is_on_the_dashboard() -> None:
    shown = {name for query, _ in queries() for name in re.findall(r"\bwms_\w+", query)}
    sums = {name for name in labels_of_series() if name.endswith(("_sum", "_count"))}
    assert set(labels_of_series()) - sums <= shown


def test_every_alert_has_a_test_a_severity_and_a_section_of_the_page() -> None:
    alerts = [rule["alert"] for rule in RULES]
    tests = yaml.safe_load((MONITORING / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    assert {test["name"].partition(",")[0] for test in tests} == set(alerts)
    assert re.findall(r"^### (Wms\w+)$", PAGE, re.MULTILINE) == alerts
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["runbook"] == f"monitoring.md#{rule['alert'].lower()}"
    for section in PAGE.partition("\n## Alerts\n")[2].split("\n### ")[1:]:
        assert all(part in section for part in ("*Meaning*: ", "*Look at*: ", "*Do*: ")), section


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    needed("promtool")
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
