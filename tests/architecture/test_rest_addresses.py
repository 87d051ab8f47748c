"""The prefix of REST addresses stands in one module of the server, and once in each program that stands alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pilots.backends import install
from wms.wire.protocol import API_V1

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
SAYS_IT: Final = {
    "wms/wire/protocol.py",
    "pilots/backends/install.py",
}
#: An address without a version; modules such as `tests/api/jobs/conftest.py` are none.
WITHOUT_VERSION: Final = re.compile(
    r"(?<!tests)/api/(?:matches|pilots|submit-pools|jobs|sandboxes|replicas|task-queues|groups|sites|gateway|auth|schema|docs)/"
)


def modules() -> list[Path]:
    return sorted(file for top in PRODUCT for file in (ROOT / top).rglob("*.py") if "migrations" not in file.parts)


def documents() -> list[Path]:
    at_the_root = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    return [*at_the_root, *sorted((ROOT / "docs").rglob("*.md"))]


def texts(module: Path) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings, if one of them has the prefix."""
    source = module.read_text(encoding="utf-8")
    if API_V1 not in source:
        return  # parsing takes long
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_the_prefix_is_written_in_one_module_of_each_program() -> None:
    found = {str(file.relative_to(ROOT)) for file in modules() if any(API_V1 in text for text in texts(file))}
    assert found == SAYS_IT


def test_all_programs_call_the_same_version() -> None:
    assert install.AGENT.startswith(API_V1)


def test_no_module_or_document_names_an_address_without_its_version() -> None:
    named = {
        str(file.relative_to(ROOT)): found
        for file in (*modules(), *documents())
        if (found := WITHOUT_VERSION.findall(file.read_text(encoding="utf-8")))
    }
    assert named == {}
