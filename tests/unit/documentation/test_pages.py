"""The parts of the pages that are made from the code are those of the code."""

import re
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from pytest_django import Settings

from wms.documentation.made_parts import table, with_part
from wms.documentation.pages import PARTS, documented
from wms.kernel.rest.error_codes import as_sentence

DOCS = Path(settings.BASE_DIR) / "docs"
MARK = re.compile(r"^<!-- (.+); made by `manage\.py document`\. -->$", re.MULTILINE)


@pytest.mark.parametrize("page", PARTS)
def test_a_page_is_the_one_of_the_code(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == documented(page, text), "run `manage.py document`"


@pytest.mark.parametrize("page", PARTS)
def test_a_page_has_each_part_once_and_no_other(page: str) -> None:
    assert sorted(MARK.findall((DOCS / page).read_text(encoding="utf-8"))) == sorted(PARTS[page])


def test_no_other_page_has_a_marker() -> None:
    assert {page.name for page in DOCS.rglob("*.md") if MARK.search(page.read_text(encoding="utf-8"))} == {*PARTS}


def test_the_command_writes_the_pages_that_are_not_current(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "docs").mkdir()
    for name in PARTS:
        (tmp_path / "docs" / name).write_text((DOCS / name).read_text(encoding="utf-8"), encoding="utf-8")
    old = tmp_path / "docs" / "errors.md"
    old.write_text(old.read_text(encoding="utf-8").replace("`not_found`", "`found`"), encoding="utf-8")
    (tmp_path / "wms").mkdir()
    source = DOCS.parent / "wms" / "settings.py"
    (tmp_path / "wms" / "settings.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    settings.BASE_DIR = tmp_path
    written = StringIO()
    call_command("document", stdout=written)
    assert written.getvalue() == f"{old} written.\n"
    assert old.read_text(encoding="utf-8") == (DOCS / "errors.md").read_text(encoding="utf-8")


def test_the_command_needs_the_repository(tmp_path: Path, settings: Settings) -> None:
    settings.BASE_DIR = tmp_path
    with pytest.raises(CommandError, match="in the repository, not in an installation"):
        call_command("document")


def test_a_document_without_a_place_for_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for Jobs"):
        with_part("# Title\n", of="Jobs", content="")


def test_a_part_replaces_the_one_before() -> None:
    text = "a\n<!-- Jobs; made by x. -->\nold\n<!-- End. -->\nb\n<!-- Other; made by x. -->\nold\n<!-- End. -->\n"
    new = with_part(text, of="Jobs", content="new")
    assert (
        new
        == "a\n<!-- Jobs; made by x. -->\n\nnew\n\n<!-- End. -->\nb\n<!-- Other; made by x. -->\nold\n<!-- End. -->\n"
    )
    assert with_part(new, of="Jobs", content="new") == new


def test_a_cell_cannot_break_its_table() -> None:
    assert table(["a", "b"], [["1|2", "`x`"]]) == "| a | b |\n|---|---|\n| 1\\|2 | `x` |"


def test_words_become_a_sentence() -> None:
    assert [as_sentence(words) for words in ("kills jobs", "Done.", "Why?")] == ["Kills jobs.", "Done.", "Why?"]
