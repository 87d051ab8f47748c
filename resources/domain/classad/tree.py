"""The syntax tree of ClassAd expressions: immutable nodes, compared without their position in the text (``at``)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Special(Enum):
    """The two special values: undefined and error."""

    UNDEFINED = "undefined"
    ERROR = "error"


class AdScope(Enum):
    """The ad in which a name is looked up."""

    NEAREST = ""
    MY = "my"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: "Scalar"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A reference to an attribute."""

    name: str
    ad: AdScope
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """``-``, ``+`` or ``!`` before an operand."""

    operator: str
    operand: "Node"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one precedence from left to right: ``first op operand op operand …``."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """``condition ? yes : no``."""

    condition: "Node"
    yes: "Node"
    no: "Node"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Path:
    """``base.name[index]…``; a step is a name or the expression of an index."""

    base: "Node"
    steps: "tuple[str | Node, ...]"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function, its name lower-cased, with as many arguments as it takes."""

    function: str
    arguments: "tuple[Node, ...]"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListExpression:
    """A list: ``{ a, b }``."""

    items: "tuple[Node, ...]"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One attribute of a record, its name as it was written."""

    name: str
    node: "Node"
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """``[ a = 1; b = 2 ]``: the entries by lower-cased name, in their order."""

    entries: Mapping[str, RecordEntry]
    at: int = field(compare=False)


Scalar = str | int | float | bool | Special
Node = Literal | Attribute | Unary | Chain | Conditional | Path | FunctionCall | ListExpression | Record


def parts_of(node: Node) -> Iterable[Node]:
    """Return the direct children of a node."""
    parts: Iterable[Node] = ()
    match node:
        case Unary():
            parts = [node.operand]
        case Chain():
            parts = [node.first, *(operand for _, operand in node.rest)]
        case Conditional():
            parts = [node.condition, node.yes, node.no]
        case Path():
            parts = [node.base, *(step for step in node.steps if not isinstance(step, str))]
        case FunctionCall():
            parts = node.arguments
        case ListExpression():
            parts = node.items
        case Record():
            parts = [entry.node for entry in node.entries.values()]
    return parts
