"""The list of conditions in docs/architecture.md equals that of the code."""

import re
from pathlib import Path
from typing import Final

from taskqueues.domain.conditions import CONDITIONS

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def test_the_conditions_of_a_match_are_listed_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Matching\n")[2].partition("Each is implemented once")[0]
    assert re.findall(r"`(\w+)`", section) == list(CONDITIONS)
