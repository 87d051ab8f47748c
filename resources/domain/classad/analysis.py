"""What an expression may look at, and whether it can become TRUE while the attributes of TARGET are not known."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from resources.domain.classad.tree import AdScope, Attribute, Chain, Conditional, Node, Path, Record, Special, parts_of

#: Parts of an expression that are looked at; one with more counts as possible. It bounds the time, and recursion.
_MOST_PARTS: Final = 40
_STRICT: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"})

#: Computes a node that looks at nothing unknown; None: that took too long.
Compute = Callable[[Node], object]


@dataclass(frozen=True, slots=True)
class Reach:
    """The names, in lower case, on which the value of an expression may depend."""

    #: Looked up in its own ad, or in a record within it.
    own: frozenset[str]
    in_target: frozenset[str]


def reach_of(node: Node, record: Record, *, constants: AbstractSet[str] = frozenset()) -> Reach:
    """Return what the value of *node* may depend on, attributes of *record* included that it refers to.

    Args:
        node: the expression.
        record: where its names are looked up.
        constants: names, in lower case, that will be replaced by constants: what they stand for is not followed.
    """
    own: set[str] = set()
    in_target: set[str] = set()
    nodes = [node]
    while nodes:
        part = nodes.pop()
        nodes.extend(parts_of(part))
        found = _looked_up(part) - own
        own |= found
        nodes.extend(entry.node for name in found - constants if (entry := record.entries.get(name)) is not None)
        if isinstance(part, Attribute) and part.ad is AdScope.TARGET:
            in_target.add(part.name.lower())
    return Reach(frozenset(own), frozenset(in_target))


def _looked_up(part: Node) -> set[str]:
    if isinstance(part, Attribute) and part.ad is not AdScope.TARGET:
        return {part.name.lower()}
    # What a record in the path lacks is looked up in the records around it.
    return {step.lower() for step in part.steps if isinstance(step, str)} if isinstance(part, Path) else set()


class Possibilities:
    """Decides about expressions of one ad, of whose TARGET only the names of some attributes are known.

    Args:
        record: of the ad.
        unknown: attributes of TARGET, in lower case, that may have any value; any other is undefined.
        compute: computes a node that looks at nothing unknown; None: that took too long.
    """

    def __init__(self, record: Record, *, unknown: AbstractSet[str], compute: Compute) -> None:
        self._record = record
        self._unknown = unknown
        self._compute = compute
        self._parts_left = _MOST_PARTS

    def may_be_true(self, node: Node) -> bool:
        """Return False only if the expression is TRUE for no values of what is unknown."""
        return self._may_hold(node) if self._is_open(node) else self._compute(node) is True

    def _is_open(self, node: Node) -> bool:
        return bool(reach_of(node, self._record).in_target & self._unknown)

    def _may_hold(self, node: Node) -> bool:
        """Return False only if, as an operand of ``&&``, it never counts as TRUE; numbers but 0 do."""
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
        if symbols == {"||"}:
            return any(self._may_hold(operand) for operand in operands)
        # These have no value where one operand has none.
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
