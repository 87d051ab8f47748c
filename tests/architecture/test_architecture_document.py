"""The diagrams and the list of conditions in docs/architecture.md equal those of the code."""

import re
from pathlib import Path
from typing import Final

import pytest

from matching.management.commands.document_states import documented
from taskqueues.domain.conditions import CONDITIONS
from wms.kernel.made_parts import with_part

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def test_the_state_diagrams_are_those_of_the_transition_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == documented(text), "run `manage.py document_states`"
    assert "Waiting --> Matched" in text


def test_a_document_without_a_place_for_a_diagram_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for Jobs"):
        with_part("# Title\n", of="Jobs", content="")


def test_the_conditions_of_a_match_are_listed_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Matching\n")[2].partition("Each is implemented once")[0]
    assert re.findall(r"`(\w+)`", section) == list(CONDITIONS)
