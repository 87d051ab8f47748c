"""Ruff's security rules (S) hold for all files but tests; each exception states its reason."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
_EXCEPTION: Final = re.compile(r"# noqa: (?=[A-Z0-9, ]*\bS[0-9]{3})(?P<rules>[A-Z0-9, ]+)(?P<reason>.*)")


def exceptions() -> Iterator[tuple[str, str]]:
    """Yield place and reason of each exception."""
    for part in PARTS:
        for file in sorted((ROOT / part).rglob("*.py")):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                if found := _EXCEPTION.search(line):
                    yield f"{file.relative_to(ROOT)}:{number}", found["reason"]


def test_each_exception_from_the_rules_of_security_says_why() -> None:
    found = list(exceptions())
    assert found  # else the expression above finds nothing
    assert [place for place, reason in found if len(reason.strip(" -")) < 5] == []


def test_the_rules_of_security_are_ignored_in_tests_only() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    of_security = re.compile(r"S[0-9]*")
    ignored = {
        place: [rule for rule in rules if of_security.fullmatch(rule)]
        for place, rules in {"everywhere": lint["ignore"], **lint["per-file-ignores"]}.items()
    }
    assert "S" in lint["select"]
    # Migrations name tables of their own in SQL.
    assert {place: rules for place, rules in ignored.items() if rules} == {
        "tests/**": ["S"],
        "*/migrations/*": ["S608"],
    }
