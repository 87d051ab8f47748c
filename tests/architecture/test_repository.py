"""The repository: lock file, migrations, decision records, licence, files at the root, commit titles."""

import re
import subprocess
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from wms.wire.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PYPI = {"https://pypi.org", "https://files.pythonhosted.org"}
AT_THE_ROOT = {
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "mkdocs.yml"),
    *("docs", "deploy", "manage.py", "pyproject.toml", "uv.lock", ".ci", ".gitignore", ".pre-commit-config.yaml"),
    *("matching", "pilots", "resources", "taskqueues", "templates", "tests", "wms"),
}
#: Titles of commits are short from then on.
SHORT_SINCE = "2026-11-23T12:00:00Z"


def git(*arguments: str) -> list[str]:
    """Return the lines that git prints about the repository; skip the test where the sources came without it."""
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no clone")
    # A clone of another account is read too.
    command = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=false", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


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


def test_the_changelog_has_a_section_for_each_release() -> None:
    """CONTRIBUTING.md, "Make a release", says when one is added."""
    first, *released = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert first == "Unreleased"
    sections = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", title) for title in released]
    versions = [section[1] for section in sections if section]
    assert len(versions) == len(released)
    assert versions[:1] in ([], [__version__])
    assert {tag.removeprefix("v") for tag in git("tag", "--list", "v*.*.*")} <= set(versions)


def test_the_project_is_licensed_under_apache_2() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def test_the_root_has_no_stray_files() -> None:
    """Neither a tracked one nor one that git would add, such as what a test leaves behind."""
    files = git("ls-files", "--cached", "--others", "--exclude-standard")
    stray = {file.split("/")[0] for file in files if (ROOT / file).exists()} - AT_THE_ROOT
    assert not stray, f"{', '.join(sorted(stray))}: remove it, or say here that it belongs at the root"


def test_titles_of_commits_have_at_most_72_characters() -> None:
    """A shallow clone has fewer commits: of them those that are there."""
    commits = git("log", f"--since={SHORT_SINCE}", "--format=%h %s")
    long = [commit for commit in commits if len(commit.partition(" ")[2]) > 72]
    assert not long, "\n".join(["say what the commit does in 72 characters, the rest in its body:", *long])
