"""The layers of docs/architecture.md, Layers, kept by import-linter; no import is ignored."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_layer_imports_one_above_it() -> None:
    # A process of its own, because import-linter disables the loggers of the process.
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_contract_ignores_an_import() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) >= 3
    assert not any("ignore_imports" in contract for contract in contracts)
