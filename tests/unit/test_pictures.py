"""Pictures and numbers of docs/matching.md, compared with the code that computes them."""

import re
import runpy
from pathlib import Path
from typing import Final

import pytest

from taskqueues.domain.history import correct_shares

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PICTURES: Final = runpy.run_path(str(DOCS / "pictures" / "priorities.py"))["pictures"]()


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_the_pictures_of_priorities_show_what_the_code_computes(name: str) -> None:
    stored = (DOCS / "pictures" / name).read_text(encoding="utf-8")
    assert stored == PICTURES[name], "run `uv run python docs/pictures/priorities.py`"


@pytest.mark.parametrize("used", [25, 50, 90, 0])
def test_the_table_of_corrected_shares_is_computed_by_the_code(used: int) -> None:
    corrected = correct_shares({1: 1000.0, 2: 3000.0}, used_s={1: float(used), 2: 100.0 - used}).values()
    row = next(row for row in _corrections() if row[0] == f"{used} %")
    assert row[1:] == [
        " and ".join(f"{each.factor:.3g}" for each in corrected),
        " and ".join(f"{each.corrected:.0f}" for each in corrected),
        " and ".join(f"{each.corrected / 40:.3g} %" for each in corrected),
    ]


def _corrections() -> list[list[str]]:
    text = (DOCS / "matching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+ %) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    return [[cell.strip() for cell in row] for row in rows]
