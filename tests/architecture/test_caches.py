"""Caches of a process: each has a row with its bound in docs/scale.md."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("matching", "pilots", "resources", "taskqueues", "wms")
#: Programs of their own, on other machines or for a moment.
ELSEWHERE: Final = ("pilots/agent/", "pilots/backends/host.py", "resources/gateway/", "wms/client/", "wms/stack/")
#: Its keys are parts of the program, processes of the server, or tasks that run now.
NO_CACHES: Final = {"wms.celery._begun", "wms.kernel.memo._brief_memos", "wms.web.server.WebServer._pauses_s"}
DECORATORS: Final = {"cache", "lru_cache"}
CALLS: Final = {*DECORATORS, "RecentlyUsed", "BriefMemo", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
#: Registries of the program are in capitals.
CONTAINERS: Final = {"dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter"}
#: Only such files are parsed.
SIGNS: Final = re.compile(rf"cache|{'|'.join(CALLS)}|= (?:{'|'.join(CONTAINERS)})\(\)|= (?:\{{\}}|\[\])")


def _called(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_cache(name: str, value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return _called(value) in CALLS or (not value.args and _called(value) in CONTAINERS and not name.isupper())
    is_empty = isinstance(value, ast.Dict | ast.List | ast.Set) and not list(ast.iter_child_nodes(value))[:-1]
    return is_empty and not name.isupper()


def _caches_in(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef() if {_called(each) for each in node.decorator_list} & DECORATORS:
                yield node.name
            case ast.ClassDef():
                yield from (f"{node.name}.{name}" for name in _caches_in(node.body))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_cache(name, value):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if _is_cache(name, value):
                yield name


def _caches() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            if "/migrations/" in place or place.startswith(ELSEWHERE) or not SIGNS.search(text := path.read_text()):
                continue
            module = place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield from (f"{module}.{name}" for name in _caches_in(ast.parse(text).body))


def _rows() -> list[str]:
    page = (ROOT / "docs" / "scale.md").read_text()
    return re.findall(r"^\| `([a-z_]+\.[\w.]+)` \|", page, flags=re.MULTILINE)


def test_each_cache_has_a_row_with_its_bound() -> None:
    assert set(_caches()) - NO_CACHES - set(_rows()) == set()


def test_each_row_names_something_that_exists() -> None:
    rows = _rows()
    assert len(rows) == len(set(rows))
    for name in rows:
        parts = name.split(".")
        depth = max(n for n in range(len(parts)) if (ROOT / "/".join(parts[:n])).with_suffix(".py").exists())
        found: object = import_module(".".join(parts[:depth]))
        for part in parts[depth:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
