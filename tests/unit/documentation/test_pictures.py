"""Pictures and numbers of the documentation, compared with the code that computes them."""

import re
from dataclasses import replace

import pytest

from docs.generators.pages import DOCS, pictures
from docs.generators.states import JOBS
from taskqueues.domain.history import correct_shares


def test_the_pictures_are_those_of_the_code() -> None:
    stored = {name: (DOCS / "pictures" / name).read_text(encoding="utf-8") for name in pictures()}
    assert stored == pictures(), "run `python -m docs.generators`"


def test_a_status_without_a_place_is_not_drawn() -> None:
    """A new status must be given a place in the picture."""
    with pytest.raises(ValueError, match="places"):
        replace(JOBS, transitions={**JOBS.transitions, "Paused": frozenset()}).drawn()


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
