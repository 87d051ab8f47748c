"""The parts of the pages that are made from the code are those of the code."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

from docs.generators import pages
from docs.generators.markdown import table, with_part
from docs.generators.pages import DOCS, PARTS, documented, update
from wms.kernel.rest.error_codes import as_sentence

MARK = re.compile(r"^<!-- (.+); made by docs/generators\. -->$", re.MULTILINE)


@pytest.mark.parametrize("page", PARTS)
def test_a_page_is_the_one_of_the_code(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == documented(page, text), "run `python -m docs.generators`"


@pytest.mark.parametrize("page", PARTS)
def test_a_page_has_each_part_once_and_no_other(page: str) -> None:
    assert sorted(MARK.findall((DOCS / page).read_text(encoding="utf-8"))) == sorted(PARTS[page])


def test_no_other_page_has_a_marker() -> None:
    assert {page.name for page in DOCS.rglob("*.md") if MARK.search(page.read_text(encoding="utf-8"))} == {*PARTS}


def test_the_files_that_are_not_current_are_written(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns("screenshots"))
    page, picture = docs / "errors.md", docs / "pictures" / "jobs.svg"
    page.write_text(page.read_text(encoding="utf-8").replace("`not_found`", "`found`"), encoding="utf-8")
    picture.write_text("", encoding="utf-8")
    assert update(docs) == [picture, page]
    for path in (picture, page):
        assert path.read_text(encoding="utf-8") == (DOCS / path.relative_to(docs)).read_text(encoding="utf-8")


def test_the_command_names_what_it_has_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "update", lambda docs: [docs / "wms.md"])
    runpy.run_module("docs.generators", run_name="__main__")
    assert capsys.readouterr().out == f"{DOCS / 'wms.md'} written.\n"


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
