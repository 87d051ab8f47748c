"""The state of reading a file, and functions that read its nodes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wms.configuration.problems import Remark, Unreadable
from wms.kernel.yaml_text import Ambiguous, Atom, ListNode, MappingNode, Node, ScalarNode, value_of

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

    #: Values of ${NAME}; None: the file may name none, as its author must not see those of the server.
    environ: Mapping[str, str] | None
    problems: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    #: Names defined in the file, by noun.
    names: dict[str, set[str]] = field(default_factory=dict)
    #: The line of each free parameter, by its path: entries hold only the lines of their own keys.
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Location:
    """The path of a value, and the reading that collects its problems."""

    reading: Reading
    path: str = ""

    def key(self, name: str) -> "Location":
        """Return the location of a key below this one."""
        return Location(self.reading, f"{self.path}.{name}" if self.path else name)

    def item(self, position: int) -> "Location":
        """Return the location of an item of this list."""
        return Location(self.reading, f"{self.path}[{position}]")

    def refuse(self, node: Node, sentence: str) -> Unreadable:
        """Note a problem with *node*, and return the exception that ends the reading of the value."""
        self.reading.problems.append(Remark(node.line, self.path, sentence))
        return Unreadable()


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of one type."""

    #: The values that it accepts, in words, for the documentation.
    accepts: str
    #: Returns the value of a node; notes a problem and raises Unreadable if there is none.
    read: Callable[[Node, Location], object]
    #: Class of the entries that the value contains; None: it contains none.
    entry: type | None = None

    def __call__(self, node: Node, at: Location) -> object:
        """Return the value of a node."""
        return self.read(node, at)


def shown(node: Node) -> str:
    """Return a word for error sentences; NB: before ${…} is replaced, as the value may be a secret."""
    text = node.text if isinstance(node, ScalarNode) else ""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def what(node: Node) -> str:
    """Return a description of the node, for "use a number, not …"."""
    if isinstance(node, ScalarNode):
        return f'"{shown(node)}"' if node.text else "nothing"
    return "a list" if isinstance(node, ListNode) else "a mapping"


def atom(node: Node, at: Location) -> Atom:
    """Return the value of a single word, with ${NAME} replaced from the environment ($${ stands for ${)."""
    if not isinstance(node, ScalarNode):
        raise at.refuse(node, f"use a single value, not {what(node)}")
    if "${" in node.text:
        return _VARIABLE.sub(lambda match: _variable(match, node, at), node.text)
    try:
        return node.value()
    except Ambiguous as problem:
        raise at.refuse(node, str(problem)) from problem


def _variable(match: re.Match[str], word: ScalarNode, at: Location) -> str:
    if match.group() == "$${":
        return "${"
    name = match.group(1)
    if name is None or not _VARIABLE_NAME.match(name):
        raise at.refuse(word, "after ${ comes the name of an environment variable and }; write $${ for ${ itself")
    if at.reading.environ is None:
        raise at.refuse(word, "an uploaded file names no variables; write the value, or $${ for ${ itself")
    if name not in at.reading.environ:
        raise at.refuse(word, f"the environment variable {name} is not set; set it, or write the value here")
    return at.reading.environ[name]


def number(node: Node, at: Location) -> Atom:
    """Return the value; a value from the environment is read like an unquoted word."""
    value = atom(node, at)
    if isinstance(value, str) and isinstance(node, ScalarNode) and "${" in node.text:
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


def pairs(node: Node, at: Location, *, same: Callable[[str], str] = str) -> list[tuple[str, ScalarNode, Node]]:
    """Return the (name, key, value) of a mapping without duplicates; *same* maps equal names to the same text."""
    if not isinstance(node, MappingNode):
        raise at.refuse(node, f"use a mapping of names to values, not {what(node)}")
    by_identity: dict[str, tuple[str, ScalarNode, Node]] = {}
    for key, value in node.nodes:
        first = by_identity.setdefault(same(key.text), (key.text, key, value))
        if first[1] is not key:
            at.key(shown(key)).refuse(key, f"given twice; first in line {first[1].line}")
    return list(by_identity.values())
