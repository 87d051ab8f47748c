"""Evaluation of ClassAd expressions, in the three-valued logic of classad2.

Differences from classad2, all towards failing closed: integers beyond 63 bits, division by zero and reals that are not
finite are ERROR; functions do not convert between numbers and strings, except strcat, and that no lists and records;
``list.name`` is ERROR; the size of a string is in characters; integers and reals are compared exactly; regular
expressions are those of RE2 (patterns.py), among them some that PCRE refuses.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from resources.domain.classad.lexer import ClassAdError
from resources.domain.classad.patterns import STEPS_OF_A_REFUSAL, PatternError, compiled
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
from resources.domain.classad.values import (
    BINARY,
    ERROR,
    FUNCTIONS,
    UNARY,
    UNDEFINED,
    Frame,
    Inner,
    cost_of,
    joined,
    lacking,
    truth_of,
)

MAX_STEPS: Final = 20_000
_MAX_DEPTH: Final = 128

#: The value of an evaluation.
Value: TypeAlias = "Scalar | tuple[Value, ...] | Mapping[str, Value]"


class _TooMuchError(Exception):
    """The evaluation took more steps, or went deeper, than allowed."""


class _TimelessError(Exception):
    """The evaluation has no time."""


class Evaluation:
    """One evaluation of expressions: counts their steps, and detects attributes that refer to themselves.

    Args:
        max_steps: for all of the expressions together.
        now: value of ``time()``, in seconds since 1970; None: it has none, and is refused.
    """

    def __init__(self, *, max_steps: int, now: int | None = None) -> None:
        self._steps = max_steps
        self._now = now
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
        except _TimelessError as error:
            sentence = "time() is for expressions of sites: here its value would be that of this moment for ever."
            raise ClassAdError(sentence, text=text, at=node.at) from error

    def _finished(self, value: Inner) -> Value:
        if isinstance(value, tuple):
            return tuple([self._finished(item) for item in value])
        if not isinstance(value, Frame):
            return value
        self._enter(steps=1 + len(value.record.entries))
        whole = {entry.name: self._finished(self._entry(entry, value)) for entry in value.record.entries.values()}
        self._depth -= 1
        return MappingProxyType(whole)

    def _enter(self, *, steps: int = 1) -> None:
        self._depth += 1
        self._spend(steps)
        if self._depth > _MAX_DEPTH:
            raise _TooMuchError

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _TooMuchError

    def _value(self, node: Node, frame: Frame) -> Inner:
        value: Inner
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
                value = UNARY[node.operator](self._value(node.operand, frame))
            case Conditional():
                value = self._conditional(node, frame)
            case Path():
                value = self._path(node, frame)
            case FunctionCall():
                value = self._call(node.function, [self._value(argument, frame) for argument in node.arguments])
            case ListExpression():
                value = tuple([self._value(item, frame) for item in node.items])
            case Record():
                value = Frame(node, outer=frame)
        self._depth -= 1
        return value

    def _call(self, function: str, arguments: Sequence[Inner]) -> Inner:
        if function == "time":
            if self._now is None:
                raise _TimelessError
            return self._now
        costs = [1 + cost_of(argument) for argument in arguments]
        self._spend(math.prod(costs) if function == "member" else sum(costs))
        compute = FUNCTIONS[function].compute or self._regexp
        return compute(*arguments)

    def _regexp(self, pattern: Inner, text: Inner, options: Inner = "") -> Inner:
        if not (isinstance(pattern, str) and isinstance(text, str) and isinstance(options, str)):
            return lacking(pattern, text, options)
        try:
            compiled_pattern = compiled(pattern, options)
        except PatternError:
            self._spend(STEPS_OF_A_REFUSAL)
            return ERROR
        searched = text.encode()
        self._spend(compiled_pattern.steps_for(searched))
        is_found = compiled_pattern.is_in(searched)
        return ERROR if is_found is None else is_found

    def _attribute(self, node: Attribute, frame: Frame) -> Inner:
        name = node.name.lower()
        if node.ad is AdScope.NEAREST and (frame.outer is not None or name in frame.record.entries):
            return self._look_up(name, frame)
        # As in classad2, a bare name that an ad lacks is the other ad's, but not within a record of the ad.
        start = frame.root if node.ad is AdScope.MY else frame.root.target
        entry = None if start is None else start.record.entries.get(name)
        return UNDEFINED if start is None or entry is None else self._entry(entry, start)

    def _look_up(self, name: str, frame: Frame | None) -> Inner:
        """Look *name* up in the record of *frame* and in those around it, but not in TARGET."""
        while frame is not None:
            entry = frame.record.entries.get(name)
            if entry is not None:
                return self._entry(entry, frame)
            self._steps -= 1
            frame = frame.outer
        return UNDEFINED

    def _entry(self, entry: RecordEntry, frame: Frame) -> Inner:
        if type(entry.node) is Literal:
            return entry.node.value
        key = (id(entry), id(frame))
        if key in self._busy:
            return UNDEFINED  # an attribute that refers to itself
        self._busy.add(key)
        value = self._value(entry.node, frame)
        self._busy.discard(key)
        return value

    def _chain(self, node: Chain, frame: Frame) -> Inner:
        value = self._value(node.first, frame)
        for symbol, operand in node.rest:
            if symbol == "?:":
                value = self._value(operand, frame) if value is UNDEFINED else value
            elif symbol in {"&&", "||"}:
                decisive = symbol == "||"
                left = truth_of(value)
                if left is decisive or left is ERROR:
                    value = left
                else:
                    value = joined(left, truth_of(self._value(operand, frame)), decisive=decisive)
            else:
                right = self._value(operand, frame)
                if isinstance(value, str) and isinstance(right, str):
                    self._steps -= cost_of(value) + cost_of(right)
                value = BINARY[symbol](value, right)
        return value

    def _conditional(self, node: Conditional, frame: Frame) -> Inner:
        truth = truth_of(self._value(node.condition, frame))
        if isinstance(truth, Special):
            return truth
        return self._value(node.yes if truth else node.no, frame)

    def _path(self, node: Path, frame: Frame) -> Inner:
        value = self._value(node.base, frame)
        for step in node.steps:
            if isinstance(step, str):
                value = self._look_up(step.lower(), value) if isinstance(value, Frame) else lacking(value)
            else:
                value = self._item(value, self._value(step, frame))
        return value

    def _item(self, value: Inner, index: Inner) -> Inner:
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
