"""The layers and the conditions in docs/architecture.md are those of the code."""

import re
import tomllib
from pathlib import Path
from typing import Final

from taskqueues.domain.conditions import CONDITIONS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "architecture.md"


def test_the_layers_are_those_that_import_linter_keeps() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Layers\n")[2].partition("\nAn app imports")[0]
    listed = [
        set(re.findall(r"`([\w.]+)`", row.split("|")[1])) for row in section.splitlines() if row.startswith("| `")
    ]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert listed == [set(layer.split(" | ")) for layer in contracts[0]["layers"]]


def test_the_conditions_of_a_match_are_listed_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Matching\n")[2].partition("Each is implemented once")[0]
    assert re.findall(r"`(\w+)`", section) == list(CONDITIONS)
