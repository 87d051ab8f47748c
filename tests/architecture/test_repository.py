"""What the repository promises to whoever clones it."""

import re
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]
PYPI = {"https://pypi.org", "https://files.pythonhosted.org"}


def test_the_lock_names_no_host_but_pypis() -> None:
    assert set(re.findall(r"https?://[^/\"]+", (ROOT / "uv.lock").read_text())) == PYPI


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, stdout=StringIO())


def test_every_decision_has_its_number_title_and_sections() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text()
        assert re.match(rf"# {int(path.name[:4])}\. \S", text), path.name
        sections = re.findall(r"^## (\w+)", text, flags=re.MULTILINE)
        assert sections == ["Context", "Decision", "Consequences", "Rejected"], path.name


def test_the_index_of_decisions_links_each_of_them_once() -> None:
    decisions = ROOT / "docs" / "adr"
    links = re.findall(
        r"^- \[ADR (\d+)\]\(([^)]+)\): \S.*\.$", (decisions / "README.md").read_text(), flags=re.MULTILINE
    )
    assert sorted(file for _, file in links) == sorted(path.name for path in decisions.glob("[0-9]*.md"))
    assert [number for number, file in links if int(number) != int(file[:4])] == []


def test_the_project_is_licensed_under_apache_2() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"
