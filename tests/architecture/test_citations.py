"""Every link, decision, file and module that documents, comments and docstrings cite exists.

The text that is read: Markdown documents as a whole; of programs, only comments and docstrings.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
TOP: Final = (*PRODUCT, "templates", "tests", "docs", "deploy", r"\.ci")
DECISIONS: Final = ROOT / "docs" / "adr"

#: Comments of files that are no Python: from the mark to the end of the line, or between two marks.
COMMENT: Final = {
    ".sql": re.compile(r"--(.*)"),
    ".yaml": re.compile(r"#(.*)"),
    ".toml": re.compile(r"#(.*)"),
    ".sh": re.compile(r"#(.*)"),
    ".html": re.compile(r"\{#(.*?)#\}|\{% comment .*?%\}(.*?)\{% endcomment %\}", re.DOTALL),
}
#: A comment of Python, or a string, in which a mark begins none; tokenize and ast take ten times as long.
#: A string is a docstring if it begins a line.
PYTHON: Final = re.compile(
    r"""
    \#(?P<comment>[^\n]*)
    | (?P<line>^[ ]*)? (?P<quotes>\"{3}|'{3}|"|') (?P<string>(?:\\.|.)*?) (?P=quotes)
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
LINK: Final = re.compile(r"(?<!`)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
CODE: Final = re.compile(r"^ *(```|~~~).*?^ *\1 *$|^(?:    [^\n]*\n)+|`[^`\n]+`", re.DOTALL | re.MULTILINE)
DECISION: Final = re.compile(r"\bADRs? (\d+)((?:(?:, | and |, and )(?:ADR )?\d+\b(?! [a-z]))*)")
#: A path from the root of the repository. What follows a slash, a dot or a brace is part of something else: an address.
PATH: Final = re.compile(rf"(?<![\w./{{}}~-])(?:{'|'.join(TOP)})/[\w./-]*\w/?")
#: A file with the last parts of its path, such as `services/match.py` or `claim.sql`.
FILE: Final = re.compile(r"(?<![\w./{}~<*:-])[\w-]+(?:/[\w-]+)*\.(?:py|sql|html|md)\b(?![\w/]|\.\w)")
MODULE: Final = re.compile(rf"(?<![\w./@-])(?:{'|'.join((*PRODUCT, 'tests'))})(?:\.[A-Za-z_]\w*)+(?![\w/])")
#: Directories of tests in a row of a table, and variables of the environment that tests read.
ROW: Final = re.compile(r"`tests/(\w+)`")
VARIABLE: Final = re.compile(r"\b(?:WMS_TESTS_[A-Z]+|FUZZ_EXAMPLES)\b")


@cache
def files() -> frozenset[Path]:
    """Return the repository's own files: without the environment, caches and generated files."""
    tops = (*PRODUCT, "templates", "tests", "docs", "deploy", ".ci")
    below = [file for top in tops for file in (ROOT / top).rglob("*")]
    return frozenset(file for file in (*ROOT.iterdir(), *below) if file.is_file() and "__pycache__" not in file.parts)


def of_kind(*suffixes: str) -> list[Path]:
    return sorted(file for file in files() if file.suffix in suffixes)


@cache
def strings(file: Path) -> tuple[str, str]:
    """Return the comments and docstrings of a Python file, and its other strings, a line each or more."""
    prose: list[str] = []
    code: list[str] = []
    for found in PYTHON.finditer(file.read_text(encoding="utf-8")):
        if found["comment"] is not None:
            prose.append(found["comment"].lstrip("#:"))
        else:
            is_docstring = found["line"] is not None and len(found["quotes"]) == 3
            (prose if is_docstring else code).append(found["string"])
    return "\n".join(prose), "\n".join(code)


@cache
def text_of(file: Path) -> str:
    """Return the prose in *file*: a document, or the comments and docstrings of a program."""
    if file.suffix == ".py":
        return strings(file)[0]
    content = file.read_text(encoding="utf-8")
    if file.suffix in COMMENT:
        return "\n".join("".join(found.groups("")) for found in COMMENT[file.suffix].finditer(content))
    return content


def texts() -> list[Path]:
    return of_kind(".md", ".py", *COMMENT)


@cache
def anchors(document: Path) -> frozenset[str]:
    """Return the anchors of the headings, made as GitHub makes them."""
    found: list[str] = []
    text = re.sub(r"^ *(```|~~~).*?^ *\1 *$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{sum(each.startswith(name) for each in found)}")
    return frozenset(found)


def test_every_link_of_a_document_resolves() -> None:
    broken = []
    for document in of_kind(".md"):
        for target in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{document.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_decision_that_is_cited_exists() -> None:
    exist = {int(file.name[:4]) for file in DECISIONS.glob("[0-9]*.md")}
    missing = [
        f"{file.relative_to(ROOT)}: ADR {number}"
        for file in texts()
        for first, others in DECISION.findall(re.sub(r"\s+", " ", text_of(file)))
        for number in re.findall(r"\d+", f"{first} {others}")
        if int(number) not in exist
    ]
    assert missing == []


def test_every_path_that_is_cited_exists() -> None:
    missing = [
        f"{file.relative_to(ROOT)}: {path}"
        for file in texts()
        for path in PATH.findall(text_of(file))
        if not (ROOT / path).exists()
    ]
    assert missing == []


def test_every_file_that_is_cited_exists() -> None:
    paths = [file.relative_to(ROOT).parts for file in files()]
    endings = {"/".join(path[start:]) for path in paths for start in range(len(path))}
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in texts()
        for name in FILE.findall(text_of(file))
        if name not in endings
    ]
    assert missing == []


@cache
def names_in(file: Path) -> frozenset[str]:
    """Return the names that a module binds, those of its classes as Class.name."""
    return frozenset(bound(ast.parse(file.read_text(encoding="utf-8")).body, prefix=""))


def bound(body: list[ast.stmt], *, prefix: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, body=members):
                yield prefix + name
                yield from bound(members, prefix=f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.Assign(targets=targets):
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)


def exists(dotted: str) -> bool:
    """Return whether *dotted* is a module, or a name that the module before it binds."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        rest = ".".join(parts[count:])
        if place.with_suffix(".py").is_file():
            return not rest or rest in names_in(place.with_suffix(".py"))
        if place.is_dir():
            return not rest or ((place / "__init__.py").is_file() and rest in names_in(place / "__init__.py"))
    return False


def test_every_heading_of_the_architecture_that_is_cited_exists() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    unknown = [
        f"{file.relative_to(ROOT)}: {cited}"
        for file in texts()
        for cited in re.findall(r"docs/architecture\.md, ([A-Z][\w -]+)", text_of(file))
        if not cited.startswith(tuple(headings))
    ]
    assert unknown == []


def test_nothing_cites_a_document_that_is_not_in_the_repository() -> None:
    outside = re.compile(r"\bDESIGN(?: §|\.md)|\bAPI\.md|\bSTYLE(?: \d|\.md)|\bSTACK\.md|\bWORKLOADS\.md")
    history = ROOT / "CHANGELOG.md"
    assert [f"{file.relative_to(ROOT)}" for file in texts() if file != history and outside.search(text_of(file))] == []


@cache
def names_in_code() -> frozenset[str]:
    """Return the dotted names in the texts of the product's code: of tasks, and of settings of the database."""
    product = [file for file in of_kind(".py", ".sql") if file.relative_to(ROOT).parts[0] in PRODUCT]
    return frozenset(name for file in product for name in MODULE.findall(constants(file)))


def constants(file: Path) -> str:
    """Return the texts in the code of a file, without comments and docstrings."""
    if file.suffix == ".py":
        return strings(file)[1]
    return "\n".join(re.findall("'([^']*)'", re.sub("--.*", "", file.read_text(encoding="utf-8"))))


def test_every_module_that_is_cited_exists() -> None:
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in texts()
        for name in MODULE.findall(text_of(file))
        if name.rpartition(".")[2] not in {"py", "yaml", "sql", "md", "env", "service", "org"}
        and not exists(name)
        and name not in names_in_code()
    ]
    assert missing == []


def test_every_directory_of_tests_and_every_variable_is_described() -> None:
    """In docs/testing.md."""
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    directories = {file.relative_to(ROOT).parts[1] for file in files() if file.is_relative_to(ROOT / "tests")}
    described = {
        name for row in re.findall(r"^\| (`tests/.*?) \|", text, flags=re.MULTILINE) for name in ROW.findall(row)
    }
    assert {name for name in directories if "." not in name} - described == set()
    used = {name for file in of_kind(".py") for name in VARIABLE.findall(file.read_text(encoding="utf-8"))}
    assert used
    assert [name for name in sorted(used) if f"`{name}`" not in text] == []
