"""Deadlines of tests are computed by tests/pace.py, so that no test depends on the speed of its machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
#: A number as one of these arguments is a limit in seconds of the clock.
_LIMITS = frozenset({"timeout", "deadline"})


def test_no_call_of_a_test_has_a_fixed_deadline() -> None:
    files = [path for path in TESTS.rglob("*.py") if "benchmarks" not in path.relative_to(TESTS).parts]
    assert [place for path in files for place in _fixed_deadlines(path)] == []


def _fixed_deadlines(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in _LIMITS):
        return  # parsing takes long
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            limits = [keyword for keyword in node.keywords if keyword.arg in _LIMITS]
            numbers = [limit for limit in limits if isinstance(limit.value, ast.Constant) and limit.value.value]
            marks = isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "pytest.mark.timeout"
            if numbers or marks:
                yield f"{path.relative_to(TESTS)}:{node.lineno}"
