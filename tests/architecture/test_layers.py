"""The layers of docs/architecture.md, Layers, kept by import-linter; no import is ignored."""

import tomllib
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parents[2]


def test_no_layer_imports_one_above_it() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None) == EXIT_STATUS_SUCCESS


def test_no_contract_ignores_an_import() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) >= 3
    assert not any("ignore_imports" in contract for contract in contracts)
