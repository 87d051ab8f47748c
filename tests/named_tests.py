"""The tests that tests/proofs.yaml and docs/threat-model.md name, and those that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
THREAT_MODEL: Final = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
#: {part: {what is proved: the tests that prove it}}.
PROOFS: Final[dict[str, dict[str, list[str]]]] = yaml.safe_load(
    (ROOT / "tests" / "proofs.yaml").read_text(encoding="utf-8")
)


@cache
def named_by_proofs() -> frozenset[str]:
    """Return the tests of tests/proofs.yaml, as ids of pytest, some with a case in brackets."""
    return frozenset(test for part in PROOFS.values() for tests in part.values() for test in tests)


@cache
def named_by_threat_model() -> frozenset[str]:
    """Return the functions that docs/threat-model.md names."""
    return frozenset(re.findall(r"`(test_\w+)`", THREAT_MODEL))


def has_named_tests(module: Path) -> bool:
    """Return whether a module of tests has one that is named."""
    if any(test.startswith(f"{module.relative_to(ROOT)}::") for test in named_by_proofs()):
        return True
    text = module.read_text(encoding="utf-8")
    return any(f"def {name}(" in text for name in named_by_threat_model())


@cache
def defined_tests() -> frozenset[str]:
    """Return all tests that exist, as ids of pytest without cases."""
    return frozenset(
        f"{file.relative_to(ROOT)}::{name}"
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in _tests_in(ast.parse(file.read_text(encoding="utf-8")))
    )


def _tests_in(parent: ast.Module | ast.ClassDef) -> list[str]:
    names = []
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names += [f"{node.name}::{name}" for name in _tests_in(node)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            names.append(node.name)
    return names
