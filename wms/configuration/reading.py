"""The state of reading a file, and functions that read its nodes."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from wms.configuration.document import Ambiguous, Atom, ListNode, Node, Pairs, Word, value_of
from wms.configuration.problems import Remark, Unreadable

_VARIABLE = re.compile(r"\$(?:\$\{|\{([^{}]*)\}|\{)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Use:
    """A reference to an object that the file or the database must hold."""

    line: int
    path: str
    #: Noun of the referenced entries.
    of: str
    name: str
    may_be_missing: bool = False


@dataclass(slots=True)
class Reading:
    """The state of reading one file: problems, warnings, references and names."""

    environ: Mapping[str, str]
    problems: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    #: Names defined in the file, by noun.
    names: dict[str, set[str]] = field(default_factory=dict)
    #: The line of each free parameter, by its path: entries hold only the lines of their own keys.
    lines: dict[str, int] = field(default_factory=dict)

    def refuse(self, line: int, path: str, sentence: str) -> Unreadable:
        """Note a problem, and return the exception that ends the reading of the value."""
        self.problems.append(Remark(line, path, sentence))
        return Unreadable()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Continue after an unreadable value, so that every problem is reported."""
        try:
            yield
        except Unreadable:
            return


@dataclass(frozen=True, slots=True)
class Location:
    """The path of a value, and the reading that collects its problems."""

    reading: Reading
    path: str

    def key(self, name: str) -> "Location":
        """Return the location of a key below this one."""
        return Location(self.reading, f"{self.path}.{name}" if self.path else name)

    def item(self, position: int) -> "Location":
        """Return the location of an item of this list."""
        return Location(self.reading, f"{self.path}[{position}]")

    def refuse(self, node: Node, sentence: str) -> Unreadable:
        """Note a problem with *node*."""
        return self.reading.refuse(node.line, self.path, sentence)


class ValueType(ABC):
    """A kind of value."""

    @abstractmethod
    def read(self, node: Node, at: Location) -> object:
        """Return the value; note a problem and raise Unreadable if there is none."""

    def plain(self, value: object) -> object:
        """Return *value* as written in YAML."""
        return value


def shown(node: Node) -> str:
    """Return a word for error sentences; NB: before ${…} is replaced, as the value may be a secret."""
    text = node.text if isinstance(node, Word) else ""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def what(node: Node) -> str:
    """Return a description of the node, for "use a number, not …"."""
    if isinstance(node, Word):
        return f'"{shown(node)}"' if node.text else "nothing"
    return "a list" if isinstance(node, ListNode) else "a mapping"


def atom(node: Node, at: Location) -> Atom:
    """Return the value of a single word, with ${NAME} replaced from the environment ($${ stands for ${)."""
    if not isinstance(node, Word):
        raise at.refuse(node, f"use a single value, not {what(node)}")
    expanded = _expanded(node, at)
    if expanded is not None:
        return expanded
    try:
        return node.value()
    except Ambiguous as problem:
        raise at.refuse(node, str(problem)) from problem


def _expanded(word: Word, at: Location) -> str | None:
    """Return the text with variables replaced, or None if there are none."""
    if "${" not in word.text:
        return None
    pieces, end = [], 0
    for match in _VARIABLE.finditer(word.text):
        pieces += [word.text[end : match.start()], _variable(match, word, at)]
        end = match.end()
    return "".join([*pieces, word.text[end:]])


def _variable(match: re.Match[str], word: Word, at: Location) -> str:
    if match.group() == "$${":
        return "${"
    name = match.group(1)
    if name is None or not _VARIABLE_NAME.match(name):
        raise at.refuse(word, "after ${ comes the name of an environment variable and }; write $${ for ${ itself")
    if name not in at.reading.environ:
        raise at.refuse(word, f"the environment variable {name} is not set; set it, or write the value here")
    return at.reading.environ[name]


def escaped(text: str) -> str:
    """Return *text* in the form whose reading returns it."""
    return text.replace("${", "$${")


def number(node: Node, at: Location) -> Atom:
    """Return the value; a value from the environment is read like an unquoted word."""
    value = atom(node, at)
    if isinstance(value, str) and isinstance(node, Word) and "${" in node.text:
        try:
            return value_of(value)
        except Ambiguous:
            return value
    return value


def items(node: Node, at: Location) -> list[Node]:
    """Return the nodes of a list."""
    if not isinstance(node, ListNode):
        raise at.refuse(node, f"use a list, such as [a, b], not {what(node)}")
    return node.nodes


def pairs(node: Node, at: Location, *, same: Callable[[str], str] = str) -> list[tuple[str, Word, Node]]:
    """Return the (name, key, value) of a mapping without duplicates; *same* maps equal names to the same text."""
    if not isinstance(node, Pairs):
        raise at.refuse(node, f"use a mapping of names to values, not {what(node)}")
    by_identity: dict[str, tuple[str, Word, Node]] = {}
    for key, value in node.nodes:
        identity = same(key.text)
        if identity in by_identity:
            at.key(shown(key)).refuse(key, f"given twice; first in line {by_identity[identity][1].line}")
            continue
        by_identity[identity] = (key.text, key, value)
    return list(by_identity.values())
