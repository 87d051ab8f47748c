"""Values of the ClassAd language, and the operators and functions on them."""

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar

from resources.domain.classad.lexer import MAX_BYTES, MAX_INTEGER
from resources.domain.classad.tree import Record, Scalar, Special

UNDEFINED: Final = Special.UNDEFINED
ERROR: Final = Special.ERROR

#: Characters whose comparison or case folding takes as long as looking up a name.
_CHARACTERS_OF_A_STEP: Final = 100
#: Between the items of a string list, and around them.
_SEPARATORS: Final = " ,\t\r\n"
_BLANKS: Final = " \t\r\n\v\f"

#: During an evaluation: a record is a frame.
Inner: TypeAlias = "Scalar | tuple[Inner, ...] | Frame"
Truth: TypeAlias = bool | Special
_Number: TypeAlias = int | float
_Comparable = TypeVar("_Comparable", int | float, bytes)


class Frame:
    """A record as a value; its attributes are computed at their use, in the scope in which they were written."""

    __slots__ = ("outer", "record", "root", "target")

    def __init__(self, record: Record, *, outer: "Frame | None" = None) -> None:
        self.record = record
        self.outer = outer
        self.root: Frame = self if outer is None else outer.root
        self.target: Frame | None = None  # of the root only


class Function(NamedTuple):
    """A function of the language, in HTCondor's spelling, and the least and largest number of its arguments."""

    name: str
    least: int
    most: float
    #: None: the evaluation has it.
    compute: Callable[..., Inner] | None = None


def cost_of(value: Inner) -> int:
    """Return the steps that a value costs, beyond that of its node."""
    if isinstance(value, tuple):
        return len(value) + sum(map(cost_of, value))
    return len(value) // _CHARACTERS_OF_A_STEP if isinstance(value, str) else 0


def lacking(*values: Inner) -> Special:
    """Return the result of an invalid operation on *values*: UNDEFINED if one is and none is ERROR, else ERROR."""
    return UNDEFINED if UNDEFINED in values and ERROR not in values else ERROR


def truth_of(value: Inner) -> Truth:
    """Return the value as an operand of && and the like; numbers except 0 are true."""
    if isinstance(value, int | float):
        return value != 0
    return value if isinstance(value, Special) else ERROR


def joined(left: Truth, right: Truth, *, decisive: bool) -> Truth:
    """Join the sides of ``&&`` (*decisive* False) or ``||`` (True); the left one is neither decisive nor ERROR."""
    if right is ERROR or right is decisive:
        return right
    return UNDEFINED if left is UNDEFINED or right is UNDEFINED else not decisive


def _not(value: Inner) -> Inner:
    truth = truth_of(value)
    return truth if isinstance(truth, Special) else not truth


def _signed(apply: Callable[[_Number], _Number]) -> Callable[[Inner], Inner]:
    def signed(value: Inner) -> Inner:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _bounded(apply(value))
        return lacking(value)

    return signed


def _bounded(number: _Number) -> Inner:
    if isinstance(number, int):
        return number if -MAX_INTEGER - 1 <= number <= MAX_INTEGER else ERROR
    return number if math.isfinite(number) else ERROR


def _arithmetic(apply: Callable[[_Number, _Number], _Number]) -> Callable[[Inner, Inner], Inner]:
    def computed(left: Inner, right: Inner) -> Inner:
        if isinstance(left, int | float) and isinstance(right, int | float):
            try:
                return _bounded(apply(left, right))
            except (ZeroDivisionError, OverflowError, TypeError):
                return ERROR
        return lacking(left, right)

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


def _comparison(apply: Callable[[int], bool]) -> Callable[[Inner, Inner], Inner]:
    def compared(left: Inner, right: Inner) -> Inner:
        if isinstance(left, int | float) and isinstance(right, int | float):
            return apply(_sign(left, right))
        if isinstance(left, str) and isinstance(right, str):
            return apply(_sign(_folded(left), _folded(right)))
        return lacking(left, right)

    return compared


def _sign(left: _Comparable, right: _Comparable) -> int:
    """Return -1, 0 or 1 as *left* is less than, equal to or greater than *right* (never NaN)."""
    return (left > right) - (left < right)


def _folded(text: str) -> bytes:
    """Return the key for comparing strings: only ASCII letters lose their case, as in classad2."""
    return text.encode().lower()


def _identical(left: Inner, right: Inner) -> Inner:
    if type(left) is not type(right):
        return False
    return ERROR if isinstance(left, tuple | Frame) else left == right


def _different(left: Inner, right: Inner) -> Inner:
    return _not(_identical(left, right))


def _size(value: Inner) -> Inner:
    if isinstance(value, str | tuple):
        return len(value)
    return len(value.record.entries) if isinstance(value, Frame) else lacking(value)


def _member(value: Inner, items: Inner) -> Inner:
    if isinstance(value, Special) or not isinstance(items, tuple):
        return lacking(value, items)
    if isinstance(value, tuple | Frame):
        return ERROR
    return any(BINARY["=="](value, item) is True for item in items)


def _joined_text(*values: Inner) -> Inner:
    words: list[str] = []
    for value in values:
        if isinstance(value, Special | tuple | Frame):
            return value if isinstance(value, Special) else ERROR
        words.append(_as_text(value))
    text = "".join(words)
    return text if len(text.encode()) <= MAX_BYTES else ERROR


def _as_text(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value:
        return f"{value:.15E}"
    return str(value)


def _string_list_member(
    value: Inner, items: Inner, separators: Inner = UNDEFINED, *, key: Callable[[str], str | bytes] = str
) -> Inner:
    """Return whether *value* is one of the *items*, which are one string; if one of both is undefined, it is not."""
    given = (value, items, separators)
    if any(each is not UNDEFINED and not isinstance(each, str) for each in given):
        return ERROR
    if not isinstance(value, str) or not isinstance(items, str):
        return UNDEFINED if value is items else False
    marks = separators if isinstance(separators, str) else _SEPARATORS
    for mark in marks[1:]:
        items = items.replace(mark, marks[0])
    parts = items.split(marks[0]) if marks else [items]
    return key(value) in {key(part) for each in parts if (part := each.strip(_BLANKS))}


def _recased(apply: Callable[[bytes], bytes]) -> Callable[[Inner], Inner]:
    def recased(value: Inner) -> Inner:
        return apply(value.encode()).decode() if isinstance(value, str) else lacking(value)

    return recased


def _to_integer(value: Inner) -> Inner:
    return _bounded(int(value)) if isinstance(value, int | float) else lacking(value)


def _to_real(value: Inner) -> Inner:
    return float(value) if isinstance(value, int | float) else lacking(value)


def _is_a(kind: type) -> Callable[[Inner], Inner]:
    return lambda value: type(value) is kind


UNARY: Final[Mapping[str, Callable[[Inner], Inner]]] = MappingProxyType(
    {"!": _not, "-": _signed(operator.neg), "+": _signed(operator.pos)}
)
BINARY: Final[Mapping[str, Callable[[Inner, Inner], Inner]]] = MappingProxyType(
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
FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        function.name.lower(): function
        for function in (
            Function("isError", 1, 1, lambda value: value is ERROR),
            Function("isUndefined", 1, 1, lambda value: value is UNDEFINED),
            Function("isBoolean", 1, 1, _is_a(bool)),
            Function("isInteger", 1, 1, _is_a(int)),
            Function("isReal", 1, 1, _is_a(float)),
            Function("isString", 1, 1, _is_a(str)),
            Function("isList", 1, 1, _is_a(tuple)),
            Function("size", 1, 1, _size),
            Function("member", 2, 2, _member),
            Function("strcat", 0, math.inf, _joined_text),
            Function("stringListMember", 2, 3, _string_list_member),
            Function("stringListIMember", 2, 3, partial(_string_list_member, key=_folded)),
            Function("toLower", 1, 1, _recased(bytes.lower)),
            Function("toUpper", 1, 1, _recased(bytes.upper)),
            Function("int", 1, 1, _to_integer),
            Function("real", 1, 1, _to_real),
            Function("ifThenElse", 3, 3),
            Function("regexp", 2, 3),
            Function("time", 0, 0),
        )
    }
)
