"""The branches of rules and services that the measured tests have reached: ``python -m tests.branches``.

It reads what ``pytest --cov`` has stored, and prints a table with a row for each app.
"""

import json
import subprocess
import sys
from collections import Counter


def table(files: dict[str, dict[str, dict[str, int]]]) -> str:
    """Return the table for the files of a JSON report of coverage."""
    all_branches: Counter[tuple[str, str]] = Counter()
    reached: Counter[tuple[str, str]] = Counter()
    for path, file in files.items():
        layer = "domain" if "/domain" in path else "services"
        app = path.partition(f"/{layer}")[0]
        for key in ((app, layer), ("all", layer)):
            all_branches[key] += file["summary"]["num_branches"]
            reached[key] += file["summary"]["covered_branches"]
    rows = [f"{'branches reached':<20}{'domain':>22}{'services':>22}"]
    for app in [*sorted({app for app, _ in all_branches} - {"all"}), "all"]:
        cells = [cell(reached[app, layer], all_branches[app, layer]) for layer in ("domain", "services")]
        rows.append(f"{app:<20}{cells[0]:>22}{cells[1]:>22}")
    return "\n".join(rows)


def cell(reached: int, branches: int) -> str:
    """Return one number of branches, and its part of all in per cent."""
    return f"{reached} of {branches} {reached / branches:6.1%}" if branches else "none"


if __name__ == "__main__":
    report = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], check=True, capture_output=True, text=True
    )
    sys.stdout.write(table(json.loads(report.stdout)["files"]) + "\n")
