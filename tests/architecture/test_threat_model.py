"""Every test that the threat model names exists."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MODEL: Final = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def test_every_test_that_it_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", MODEL))
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert named
    assert named - defined == set()


def test_nobody_is_named_without_a_test() -> None:
    rows = [line for line in MODEL.splitlines() if line.startswith("| **")]
    assert len(rows) >= 8
    assert [row for row in rows if "`test_" not in row.split("|")[-2]] == []


def test_every_file_that_it_names_exists() -> None:
    named = re.findall(r"`((?:tests|docs|wms)/[\w/.-]+)`", MODEL)
    assert [name for name in named if not (ROOT / name).exists()] == []
