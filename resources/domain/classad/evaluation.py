"""Evaluation of ClassAd expressions, in the three-valued logic of classad2.

Differences from classad2, all towards failing closed: integers beyond 63 bits, division by zero and reals that are not
finite are ERROR; functions do not convert between numbers and strings; ``list.name`` is ERROR; the size of a string
is in characters; integers and reals are compared exactly.
"""

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from resources.domain.classad.lexer import MAX_INTEGER, ClassAdError
from resources.domain.classad.tree import (
    AdScope,
    Attribute,
    Chain,
    Conditional,
    FunctionCall,
    ListExpression,
    Literal,
    Node,
    Path,
    Record,
    RecordEntry,
    Scalar,
    Special,
    Unary,
)

UNDEFINED: Final = Special.UNDEFINED
ERROR: Final = Special.ERROR

MAX_STEPS: Final = 20_000
_MAX_DEPTH: Final = 128
#: Characters whose comparison or case folding takes as long as looking up a name.
_CHARACTERS_OF_A_STEP: Final = 100

Value: TypeAlias = "Scalar | tuple[Value, ...] | Mapping[str, Value]"
_Inner: TypeAlias = "Scalar | tuple[_Inner, ...] | Frame"
_Number: TypeAlias = int | float
_Truth: TypeAlias = bool | Special
_Comparable = TypeVar("_Comparable", int | float, bytes)


class Frame:
    """A record as a value; its attributes are computed at their use, in the scope in which they were written."""

    __slots__ = ("outer", "record", "root", "target")

    def __init__(self, record: Record, *, outer: "Frame | None" = None) -> None:
        self.record = record
        self.outer = outer
        self.root: Frame = self if outer is None else outer.root
        self.target: Frame | None = None  # of the root only


class _TooMuchError(Exception):
    """The evaluation took more steps, or went deeper, than allowed."""


class Evaluation:
    """One evaluation of one expression: counts steps, and detects attributes that refer to themselves."""

    def __init__(self, *, max_steps: int) -> None:
        self._steps = max_steps
        self._depth = 0
        self._busy: set[tuple[int, int]] = set()

    def run(self, node: Node, *, my: Frame, text: str) -> Value:
        """Return the value of *node*, which may be the record of *my* itself, with every record in it computed.

        Raises:
            ClassAdError: too many steps, or too deep; it points at where *node* begins in *text*.
        """
        try:
            return self._finished(my if node is my.record else self._value(node, my))
        except _TooMuchError as error:
            raise ClassAdError(
                "This expression takes too long to evaluate; simplify it.", text=text, at=node.at
            ) from error

    def _finished(self, value: _Inner) -> Value:
        if isinstance(value, tuple):
            return tuple([self._finished(item) for item in value])
        if not isinstance(value, Frame):
            return value
        self._enter(steps=1 + len(value.record.entries))
        whole = {entry.name: self._finished(self._entry(entry, value)) for entry in value.record.entries.values()}
        self._depth -= 1
        return MappingProxyType(whole)

    def _enter(self, *, steps: int = 1) -> None:
        self._steps -= steps
        self._depth += 1
        if self._steps < 0 or self._depth > _MAX_DEPTH:
            raise _TooMuchError

    def _value(self, node: Node, frame: Frame) -> _Inner:
        value: _Inner
        if isinstance(node, Literal):
            self._steps -= 1
            return node.value
        self._enter()
        match node:
            case Attribute():
                value = self._attribute(node, frame)
            case Chain():
                value = self._chain(node, frame)
            case Unary():
                value = _UNARY[node.operator](self._value(node.operand, frame))
            case Conditional():
                value = self._conditional(node, frame)
            case Path():
                value = self._path(node, frame)
            case FunctionCall():
                arguments = [self._value(argument, frame) for argument in node.arguments]
                self._steps -= math.prod([1 + _count_step(argument) for argument in arguments])
                value = FUNCTIONS[node.function](*arguments)
            case ListExpression():
                value = tuple([self._value(item, frame) for item in node.items])
            case Record():
                value = Frame(node, outer=frame)
        self._depth -= 1
        return value

    def _attribute(self, node: Attribute, frame: Frame) -> _Inner:
        name = node.name.lower()
        if node.ad is AdScope.NEAREST and (frame.outer is not None or name in frame.record.entries):
            return self._look_up(name, frame)
        # As in classad2, a bare name that an ad lacks is the other ad's, but not within a record of the ad.
        start = frame.root if node.ad is AdScope.MY else frame.root.target
        entry = None if start is None else start.record.entries.get(name)
        return UNDEFINED if start is None or entry is None else self._entry(entry, start)

    def _look_up(self, name: str, frame: Frame | None) -> _Inner:
        """Look *name* up in the record of *frame* and in those around it, but not in TARGET."""
        while frame is not None:
            entry = frame.record.entries.get(name)
            if entry is not None:
                return self._entry(entry, frame)
            self._steps -= 1
            frame = frame.outer
        return UNDEFINED

    def _entry(self, entry: RecordEntry, frame: Frame) -> _Inner:
        if type(entry.node) is Literal:
            return entry.node.value
        key = (id(entry), id(frame))
        if key in self._busy:
            return UNDEFINED  # an attribute that refers to itself
        self._busy.add(key)
        value = self._value(entry.node, frame)
        self._busy.discard(key)
        return value

    def _chain(self, node: Chain, frame: Frame) -> _Inner:
        value = self._value(node.first, frame)
        for symbol, operand in node.rest:
            if symbol in {"&&", "||"}:
                decisive = symbol == "||"
                left = _truth(value)
                if left is decisive or left is ERROR:
                    value = left
                else:
                    value = _joined(left, _truth(self._value(operand, frame)), decisive=decisive)
            else:
                right = self._value(operand, frame)
                if isinstance(value, str) and isinstance(right, str):
                    self._steps -= _count_step(value) + _count_step(right)
                value = _BINARY[symbol](value, right)
        return value

    def _conditional(self, node: Conditional, frame: Frame) -> _Inner:
        truth = _truth(self._value(node.condition, frame))
        if isinstance(truth, Special):
            return truth
        return self._value(node.yes if truth else node.no, frame)

    def _path(self, node: Path, frame: Frame) -> _Inner:
        value = self._value(node.base, frame)
        for step in node.steps:
            if isinstance(step, str):
                value = self._look_up(step.lower(), value) if isinstance(value, Frame) else _lacking(value)
            else:
                value = self._item(value, self._value(step, frame))
        return value

    def _item(self, value: _Inner, index: _Inner) -> _Inner:
        if value is ERROR or index is ERROR:
            return ERROR
        if value is UNDEFINED or index is UNDEFINED:
            return UNDEFINED
        if isinstance(value, Frame) and isinstance(index, str):
            entry = value.record.entries.get(index.lower())
            return UNDEFINED if entry is None else self._entry(entry, value)
        if isinstance(value, tuple) and type(index) is int and 0 <= index < len(value):
            return value[index]
        return ERROR


def _count_step(value: _Inner) -> int:
    """Return the additional steps that a value costs."""
    if isinstance(value, tuple):
        return len(value) + sum(map(_count_step, value))
    return len(value) // _CHARACTERS_OF_A_STEP if isinstance(value, str) else 0


def _lacking(*values: _Inner) -> Special:
    """Return the result of an invalid operation on *values*: UNDEFINED if one is and none is ERROR, else ERROR."""
    return UNDEFINED if UNDEFINED in values and ERROR not in values else ERROR


def _truth(value: _Inner) -> _Truth:
    if isinstance(value, int | float):
        return value != 0
    return value if isinstance(value, Special) else ERROR


def _joined(left: _Truth, right: _Truth, *, decisive: bool) -> _Truth:
    """Join the sides of ``&&`` (*decisive* False) or ``||`` (True); the left one is neither decisive nor ERROR."""
    if right is ERROR or right is decisive:
        return right
    return UNDEFINED if left is UNDEFINED or right is UNDEFINED else not decisive


def _not(value: _Inner) -> _Inner:
    truth = _truth(value)
    return truth if isinstance(truth, Special) else not truth


def _signed(apply: Callable[[_Number], _Number]) -> Callable[[_Inner], _Inner]:
    def signed(value: _Inner) -> _Inner:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _bounded(apply(value))
        return _lacking(value)

    return signed


def _bounded(number: _Number) -> _Inner:
    if isinstance(number, int):
        return number if -MAX_INTEGER - 1 <= number <= MAX_INTEGER else ERROR
    return number if math.isfinite(number) else ERROR


def _arithmetic(apply: Callable[[_Number, _Number], _Number]) -> Callable[[_Inner, _Inner], _Inner]:
    def computed(left: _Inner, right: _Inner) -> _Inner:
        if isinstance(left, int | float) and isinstance(right, int | float):
            try:
                return _bounded(apply(left, right))
            except (ZeroDivisionError, OverflowError, TypeError):
                return ERROR
        return _lacking(left, right)

    return computed


def _quotient(left: _Number, right: _Number) -> _Number:
    if isinstance(left, int) and isinstance(right, int):
        magnitude = abs(left) // abs(right)  # towards zero, unlike Python's //
        return magnitude if (left < 0) == (right < 0) else -magnitude
    return left / right


def _remainder(left: _Number, right: _Number) -> _Number:
    if isinstance(left, int) and isinstance(right, int):
        magnitude = abs(left) % abs(right)  # the sign of the dividend, unlike Python's %
        return -magnitude if left < 0 else magnitude
    raise TypeError("reals have no remainder")


def _comparison(apply: Callable[[int], bool]) -> Callable[[_Inner, _Inner], _Inner]:
    def compared(left: _Inner, right: _Inner) -> _Inner:
        if isinstance(left, int | float) and isinstance(right, int | float):
            return apply(_sign(left, right))
        if isinstance(left, str) and isinstance(right, str):
            return apply(_sign(_folded(left), _folded(right)))
        return _lacking(left, right)

    return compared


def _sign(left: _Comparable, right: _Comparable) -> int:
    """Return -1, 0 or 1 as *left* is less than, equal to or greater than *right* (never NaN)."""
    return (left > right) - (left < right)


def _folded(text: str) -> bytes:
    """Return the key for comparing strings: only ASCII letters lose their case, as in classad2."""
    return text.encode().lower()


def _identical(left: _Inner, right: _Inner) -> _Inner:
    if type(left) is not type(right):
        return False
    return ERROR if isinstance(left, tuple | Frame) else left == right


def _different(left: _Inner, right: _Inner) -> _Inner:
    return _not(_identical(left, right))


def _size(value: _Inner) -> _Inner:
    if isinstance(value, str | tuple):
        return len(value)
    return len(value.record.entries) if isinstance(value, Frame) else _lacking(value)


def _member(value: _Inner, items: _Inner) -> _Inner:
    if isinstance(value, Special) or not isinstance(items, tuple):
        return _lacking(value, items)
    if isinstance(value, tuple | Frame):
        return ERROR
    return any(_BINARY["=="](value, item) is True for item in items)


def _recased(apply: Callable[[bytes], bytes]) -> Callable[[_Inner], _Inner]:
    def recased(value: _Inner) -> _Inner:
        return apply(value.encode()).decode() if isinstance(value, str) else _lacking(value)

    return recased


def _to_integer(value: _Inner) -> _Inner:
    return _bounded(int(value)) if isinstance(value, int | float) else _lacking(value)


def _to_real(value: _Inner) -> _Inner:
    return float(value) if isinstance(value, int | float) else _lacking(value)


def _is_a(kind: type) -> Callable[[_Inner], _Inner]:
    return lambda value: type(value) is kind


_UNARY: Final[Mapping[str, Callable[[_Inner], _Inner]]] = MappingProxyType(
    {"!": _not, "-": _signed(operator.neg), "+": _signed(operator.pos)}
)
_BINARY: Final[Mapping[str, Callable[[_Inner, _Inner], _Inner]]] = MappingProxyType(
    {
        "+": _arithmetic(operator.add),
        "-": _arithmetic(operator.sub),
        "*": _arithmetic(operator.mul),
        "/": _arithmetic(_quotient),
        "%": _arithmetic(_remainder),
        "<": _comparison(lambda sign: sign < 0),
        "<=": _comparison(lambda sign: sign <= 0),
        ">": _comparison(lambda sign: sign > 0),
        ">=": _comparison(lambda sign: sign >= 0),
        "==": _comparison(lambda sign: sign == 0),
        "!=": _comparison(lambda sign: sign != 0),
        "=?=": _identical,
        "=!=": _different,
    }
)
FUNCTIONS: Final[Mapping[str, Callable[..., _Inner]]] = MappingProxyType(
    {
        "iserror": lambda value: value is ERROR,
        "isundefined": lambda value: value is UNDEFINED,
        "isboolean": _is_a(bool),
        "isinteger": _is_a(int),
        "isreal": _is_a(float),
        "isstring": _is_a(str),
        "islist": _is_a(tuple),
        "size": _size,
        "member": _member,
        "tolower": _recased(bytes.lower),
        "toupper": _recased(bytes.upper),
        "int": _to_integer,
        "real": _to_real,
    }
)
