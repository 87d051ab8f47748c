"""The chaos suite, for half a minute."""

import subprocess
import sys

from tests.end_to_end.stack.running import PROJECT, environment
from tests.pace import within


def test_a_short_run_violates_nothing() -> None:
    size = ["--seconds", "20", "--pilots", "6", "--submitters", "2", "--agents", "1"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *size],
        cwd=PROJECT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=within(300),
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "| violations | 0 |" in run.stdout
