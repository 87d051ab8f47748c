"""Analysis of expressions: the names that a value depends on, and whether it may be TRUE for some unknown TARGET."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from resources.domain.classad.tree import (
    AdScope,
    Attribute,
    Chain,
    Conditional,
    FunctionCall,
    Node,
    Path,
    Record,
    Special,
    parts_of,
)

#: Parts of an expression that are analysed, which bounds time and recursion; with more, it counts as possibly TRUE.
_MOST_PARTS: Final = 40
_OF_TARGET: Final = "target."
_STRICT: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"})

#: Computes a node without unknown names; None: it took too long.
Compute = Callable[[Node], object]


@dataclass(frozen=True, slots=True)
class Reach:
    """The names, in lower case unless it says otherwise, on which the value of an expression may depend."""

    #: Names looked up in its own ad, or in a record within it.
    own: frozenset[str]
    #: Names looked up in TARGET, as they were written: ``TARGET.name``, and bare names that its own ad lacks.
    elsewhere: frozenset[str]
    #: Whether it depends on ``time()``.
    uses_time: bool

    @property
    def in_target(self) -> frozenset[str]:
        """Return the names looked up in TARGET."""
        return frozenset(name.lower().removeprefix(_OF_TARGET) for name in self.elsewhere)


def reach_of(node: Node, record: Record, *, constants: AbstractSet[str] = frozenset()) -> Reach:
    """Return the names that the value of *node* depends on, directly or through attributes of *record*.

    Args:
        node: the expression.
        record: where its names are looked up.
        constants: names, in lower case, that will be replaced by constants and are not followed.
    """
    own: set[str] = set()
    elsewhere: set[str] = set()
    uses_time = False
    #: With each node, whether it is within a record, where bare names are not looked up in TARGET.
    nodes = [(node, False)]
    while nodes:
        part, is_within = nodes.pop()
        nodes.extend((inner, is_within or isinstance(part, Record)) for inner in parts_of(part))
        uses_time = uses_time or (isinstance(part, FunctionCall) and part.function == "time")
        names = _looked_up(part)
        nodes.extend((record.entries[name].node, False) for name in names - own - constants if name in record.entries)
        own |= names
        if isinstance(part, Attribute) and part.ad is AdScope.TARGET:
            elsewhere.add(f"TARGET.{part.name}")
        elif isinstance(part, Attribute) and part.ad is AdScope.NEAREST and not is_within:
            elsewhere |= {part.name} if names.isdisjoint(constants | record.entries.keys()) else set()
    return Reach(frozenset(own), frozenset(elsewhere), uses_time)


def _looked_up(part: Node) -> set[str]:
    if isinstance(part, Attribute) and part.ad is not AdScope.TARGET:
        return {part.name.lower()}
    # A name that a record in the path lacks is looked up in the records around it.
    return {step.lower() for step in part.steps if isinstance(step, str)} if isinstance(part, Path) else set()


class Possibilities:
    """Decides about expressions of one ad; of TARGET, only the names of some attributes are known.

    Args:
        record: of the ad.
        unknown: attributes of TARGET, in lower case, that may have any value; any other is undefined.
        compute: computes a node without unknown names; None: it took too long.
    """

    def __init__(self, record: Record, *, unknown: AbstractSet[str], compute: Compute) -> None:
        self._record = record
        self._unknown = unknown
        self._compute = compute
        self._parts_left = _MOST_PARTS

    def may_be_true(self, node: Node) -> bool:
        """Return False only if the expression cannot be TRUE for any values of the unknown attributes."""
        return self._may_hold(node) if self._is_open(node) else self._compute(node) is True

    def _is_open(self, node: Node) -> bool:
        return bool(reach_of(node, self._record).in_target & self._unknown)

    def _may_hold(self, node: Node) -> bool:
        """Return False only if it can never count as TRUE as an operand of ``&&``; numbers except 0 do."""
        self._parts_left -= 1
        if self._parts_left < 0:
            return True
        if not self._is_open(node):
            value = self._compute(node)
            return value is None or (isinstance(value, int | float) and value != 0)
        match node:
            case Chain():
                return self._chain_may_hold(node)
            case Conditional():
                return self._conditional_may_hold(node)
            case Attribute(ad=AdScope.MY | AdScope.NEAREST) if (
                entry := self._record.entries.get(node.name.lower())
            ) is not None:
                return self._may_hold(entry.node)
        return True

    def _chain_may_hold(self, node: Chain) -> bool:
        operands = [node.first, *(operand for _, operand in node.rest)]
        # Operators of one precedence make a chain; only ``&&`` and ``||`` have one to themselves.
        symbols = {symbol for symbol, _ in node.rest}
        if symbols == {"&&"}:
            return all(self._may_hold(operand) for operand in operands)
        if symbols in ({"||"}, {"?:"}):
            return any(self._may_hold(operand) for operand in operands)
        # These operators have no value if one operand has none.
        return not (symbols <= _STRICT and any(self._lacks_value(operand) for operand in operands))

    def _conditional_may_hold(self, node: Conditional) -> bool:
        if self._is_open(node.condition):
            return any(self._may_hold(branch) for branch in (node.yes, node.no))
        value = self._compute(node.condition)
        if value is None:
            return True
        return isinstance(value, int | float) and self._may_hold(node.yes if value else node.no)

    def _lacks_value(self, node: Node) -> bool:
        self._parts_left -= 1
        return self._parts_left >= 0 and not self._is_open(node) and isinstance(self._compute(node), Special)
