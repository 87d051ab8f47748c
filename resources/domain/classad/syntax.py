"""The parser of the ClassAd language.

A precedence-climbing parser. Chains of equal precedence (``a || b || c``) and paths (``a.b[0].c``) are one node each,
and MAX_DEPTH bounds everything else, so neither parsing nor a walk over a tree can exhaust Python's stack.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from resources.domain.classad.lexer import (
    MAX_INTEGER,
    MAX_NAME_CHARACTERS,
    NO_TEXTS,
    ClassAdError,
    Token,
    at_its_cause,
    shortened,
    shown,
    tokens_of,
    unquoted,
)
from resources.domain.classad.patterns import PatternError, compiled
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
from resources.domain.classad.values import FUNCTIONS
from wms.kernel.names import counted, did_you_mean

MAX_DEPTH: Final = 64
MAX_NODES: Final = 10_000

_PRECEDENCE: Final = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "=?=": 3, "=!=": 3, "is": 3, "isnt": 3,
    "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5,
    "*": 6, "/": 6, "%": 6,
}  # fmt: skip
_TIGHTEST: Final = 7
_SYNONYM: Final = {"is": "=?=", "isnt": "=!="}
_CONSTANTS: Final = frozenset({"string", "integer", "real"})
_ENDINGS: Final = frozenset({";", ",", "}", "]", ")", "end"})
_CLOSING: Final = {"{": "}", "(": ")", "[": "]"}
_KEYWORDS: Final[Mapping[str, bool | Special]] = MappingProxyType(
    {"true": True, "false": False, "undefined": Special.UNDEFINED, "error": Special.ERROR}
)
_RESERVED: Final = frozenset({*_KEYWORDS, *_SYNONYM})

_NodeT = TypeVar("_NodeT", bound=Node)


def parse_node(text: str) -> Node:
    """Return the tree of one expression that makes up the whole of *text*; raises ClassAdError."""
    parser = _Parser(text)
    return parser.whole(parser.expression)


def parse_record(
    text: str, *, dotted_names: bool, by_lines: bool = False, texts: Mapping[int, int] = NO_TEXTS
) -> Record:
    """Return the record that makes up the whole of *text*, with or without the outer brackets; raises ClassAdError.

    Args:
        text: ``[ a = 1; b = 2 ]``, or the same without brackets.
        dotted_names: whether the record's own attributes may have names like ``Parameters.energy`` (JDL).
        by_lines: whether, without brackets, an attribute ends where the next one begins a line (HTCondor's old form).
        texts: {begin: end} of strings without quotes.
    """
    parser = _Parser(text, by_lines=by_lines, texts=texts)
    return parser.whole(partial(parser.outer_record, dotted_names=dotted_names))


class _Parser:
    """Parser of one text. ``_height`` is the height of the tree returned last, which keeps trees below MAX_DEPTH."""

    def __init__(self, text: str, *, by_lines: bool = False, texts: Mapping[int, int] = NO_TEXTS) -> None:
        self._text = text
        self._by_lines = by_lines
        self._tokens = tokens_of(text, texts=texts)
        self._next = 0
        self._depth = 0
        self._height = 0
        self._nodes = 0

    def whole(self, read: Callable[[], _NodeT]) -> _NodeT:
        """Return what *read* reads, which has to be the whole text."""
        try:
            node = read()
            token = self._tokens[self._next]
            if token.kind != "end":
                raise self._error(f"The text should end here, but {shown(token)} follows; remove it.", token)
        except ClassAdError as error:
            raise at_its_cause(error, text=self._text, tokens=self._tokens) from error
        return node

    def outer_record(self, *, dotted_names: bool) -> Record:
        token = self._tokens[self._next]
        bracketed = token.kind == "["
        self._next += bracketed
        return self._record("]" if bracketed else "end", at=token.at, dotted_names=dotted_names)

    def expression(self) -> Node:
        at = self._tokens[self._next].at
        condition = self._operation(1)
        if self._tokens[self._next].kind != "?":
            return condition
        height = self._height
        self._next += 1
        yes = self._nested()
        height = max(height, self._height)
        self._expect(":", "in a conditional (condition ? yes : no)")
        no = self._nested()
        self._grow(max(height, self._height), at)
        return Conditional(condition, yes, no, at)

    def _nested(self) -> Node:
        """Read an expression one level deeper."""
        token = self._tokens[self._next]
        if token.kind in _CONSTANTS and self._tokens[self._next + 1].kind in _ENDINGS:
            # Shortcut for nearly every value of a job description; without it, parsing takes twice as long.
            self._next += 1
            return self._literal(self._value(token), token)
        self._deeper()
        node = self.expression()
        self._depth -= 1
        return node

    def _operation(self, lowest: int) -> Node:
        """Read operands and the operators that bind at least as tightly as *lowest*."""
        token = self._tokens[self._next]
        left = self._unary()
        height = self._height
        while True:
            precedence = self._precedence()
            if precedence < lowest:
                self._height = height
                return left
            rest: list[tuple[str, Node]] = []
            while self._precedence() == precedence:
                operator = self._tokens[self._next].text
                self._next += 1
                if precedence < _TIGHTEST - 1:
                    self._deeper()
                    right = self._operation(precedence + 1)
                    self._depth -= 1
                else:
                    right = self._unary()
                height = max(height, self._height)
                rest.append((_SYNONYM.get(operator.lower(), operator), right))
            left = Chain(left, tuple(rest), token.at)
            self._grow(height, token.at)
            height = self._height

    def _precedence(self) -> int:
        token = self._tokens[self._next]
        return _PRECEDENCE.get(token.text.lower() if token.kind == "name" else token.kind, 0)

    def _unary(self) -> Node:
        token = self._tokens[self._next]
        if token.kind not in {"-", "+", "!"}:
            return self._defaulted()
        self._next += 1
        self._deeper()
        operand = self._unary()
        self._depth -= 1
        self._grow(self._height, token.at)
        return Unary(token.kind, operand, token.at)

    def _defaulted(self) -> Node:
        """Read a path, with those that stand for it where it is undefined: ``a ?: b ?: -1``."""
        token = self._tokens[self._next]
        first = self._path()
        height = self._height
        rest: list[tuple[str, Node]] = []
        while self._tokens[self._next].kind == "?" and self._tokens[self._next + 1].kind == ":":
            self._next += 2
            rest.append(("?:", self._negative() or self._path()))
            height = max(height, self._height)
        if not rest:
            return first
        self._grow(height, token.at)
        return Chain(first, tuple(rest), token.at)

    def _negative(self) -> Node | None:
        """Read a number with a minus that touches it; None: it is something else."""
        minus, number = self._tokens[self._next : self._next + 2]
        if minus.kind != "-" or number.kind not in {"integer", "real"} or number.at != minus.at + 1:
            return None
        self._next += 2
        self._grow(0, minus.at, nodes=2)
        return Unary("-", Literal(self._value(number), number.at), minus.at)

    def _path(self) -> Node:
        base = self._primary()
        token = self._tokens[self._next]
        if token.kind not in {".", "["}:
            return base
        height = self._height
        steps: list[str | Node] = []
        while token.kind in {".", "["}:
            self._next += 1
            if token.kind == ".":
                steps.append(self._name("after the dot"))
            else:
                steps.append(self._nested())
                height = max(height, self._height)
                self._expect("]", "after the index")
            token = self._tokens[self._next]
        self._grow(height, token.at, nodes=len(steps))
        return Path(base, tuple(steps), token.at)

    def _primary(self) -> Node:
        token = self._tokens[self._next]
        kind = token.kind
        if kind == "name":
            return self._named(token)
        if kind in _CONSTANTS:
            self._next += 1
            return self._literal(self._value(token), token)
        if kind not in _CLOSING:
            raise self._error(f"A value is expected here, not {shown(token)}.", token)
        self._next += 1
        if kind == "(":
            node = self._nested()
            self._expect(")", "after the expression in parentheses")
            return node
        if kind == "{":
            items = self._sequence("}")
            self._grow(self._height, token.at)
            return ListExpression(items, token.at)
        return self._record("]", at=token.at, dotted_names=False)

    def _named(self, token: Token) -> Node:
        """Read a keyword, a call, or an attribute with or without MY or TARGET."""
        self._next += 1
        word = token.text.lower()
        if word in _KEYWORDS:
            return self._literal(_KEYWORDS[word], token)
        following = self._tokens[self._next].kind
        if following == "(":
            self._next += 1
            return self._call(word, token)
        name, ad = token.text, AdScope.NEAREST
        if following == "." and word in {"my", "target"}:
            self._next += 1
            name, ad = self._name("after the dot"), AdScope(word)
        elif word in _RESERVED:
            raise self._error(f"A value is expected here, not the operator {shown(token)}.", token)
        self._grow(-1, token.at)
        return Attribute(name, ad, token.at)

    def _call(self, function: str, token: Token) -> Node:
        if function not in FUNCTIONS:
            names = [FUNCTIONS[known].name for known in sorted(FUNCTIONS)]
            hint = did_you_mean(token.text[:64], names)
            raise self._error(f"There is no function {shown(token)}.{hint} There are {', '.join(names)}.", token)
        least, most = FUNCTIONS[function].least, FUNCTIONS[function].most
        arguments = self._sequence(")")
        if not least <= len(arguments) <= most:
            expected = counted(least, "argument") if least == most else f"{least} to {most} arguments"
            raise self._error(f"The function {shown(token)} takes {expected}, not {len(arguments)}.", token)
        if function == "regexp":
            self._check_pattern(arguments)
        self._grow(self._height, token.at)
        if function == "ifthenelse":
            condition, yes, no = arguments
            return Conditional(condition, yes, no, token.at)
        return FunctionCall(function, arguments, token.at)

    def _check_pattern(self, arguments: Sequence[Node]) -> None:
        """Refuse a regular expression that is a constant and invalid; others are errors when they are evaluated."""
        pattern, _, *options = arguments
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return
        option = options[0].value if options and isinstance(options[0], Literal) else ""
        try:
            compiled(pattern.value, option if isinstance(option, str) else "")
        except PatternError as error:
            raise ClassAdError(str(error), text=self._text, at=pattern.at) from error

    def _literal(self, value: Scalar, token: Token) -> Node:
        self._grow(-1, token.at)
        return Literal(value, token.at)

    def _value(self, token: Token) -> str | int | float:
        if token.kind == "string":
            return unquoted(token, self._text)
        if token.kind == "integer":
            # The length first: Python refuses to convert thousands of digits.
            if len(token.text) > len(str(MAX_INTEGER)) or int(token.text) > MAX_INTEGER:
                raise self._error(f"Integers go up to {MAX_INTEGER}; {shown(token)} is larger.", token)
            return int(token.text)
        value = float(token.text)
        if value in {float("inf"), float("-inf")}:
            raise self._error(f"The number {shown(token)} is too large.", token)
        return value

    def _sequence(self, closing: str) -> tuple[Node, ...]:
        """Read comma-separated expressions up to *closing*; ``_height`` becomes that of the highest, -1 if none."""
        highest = -1
        items: list[Node] = []
        if self._tokens[self._next].kind != closing:
            while True:
                items.append(self._nested())
                highest = max(highest, self._height)
                if self._tokens[self._next].kind != ",":
                    break
                self._next += 1
        self._expect(closing, "here, or a comma")
        self._height = highest
        return tuple(items)

    def _record(self, closing: str, *, at: int, dotted_names: bool) -> Record:
        entries: dict[str, RecordEntry] = {}
        highest = -1
        while True:
            while self._tokens[self._next].kind == ";":
                self._next += 1
            token = self._tokens[self._next]
            if token.kind == closing:
                break
            name = self._attribute_name(dotted_names=dotted_names)
            if name.lower() in entries:
                raise self._error(f"The attribute `{name}` is given twice (letter case does not count).", token)
            self._expect("=", f"after the attribute `{name}`")
            entries[name.lower()] = RecordEntry(name, self._nested(), token.at)
            highest = max(highest, self._height)
            if self._tokens[self._next].kind not in {";", closing} and not (closing == "end" and self._is_next_line()):
                self._expect(";", f"after the value of `{name}`")
        self._next += closing != "end"
        self._grow(highest, at)
        return Record(MappingProxyType(entries), at)

    def _is_next_line(self) -> bool:
        """Return whether the next token begins a line with a new attribute, where that ends the one before."""
        token = self._tokens[self._next]
        if not self._by_lines or token.kind != "name" or self._tokens[self._next + 1].kind != "=":
            return False
        line_at = self._text.rfind("\n", 0, token.at) + 1
        return not self._text[line_at : token.at].strip()

    def _attribute_name(self, *, dotted_names: bool) -> str:
        begin = self._tokens[self._next]
        name = self._name("where an attribute begins (name = value;)")
        while dotted_names and self._tokens[self._next].kind == ".":
            self._next += 1
            name = f"{name}.{self._name('after the dot')}"
            if len(name) > MAX_NAME_CHARACTERS:
                problem = f"The name `{shortened(name)}` is too long: at most {MAX_NAME_CHARACTERS} characters."
                raise self._error(problem, begin)
        return name

    def _name(self, where: str) -> str:
        token = self._tokens[self._next]
        if token.kind != "name":
            raise self._error(f"A name is expected {where}, not {shown(token)}.", token)
        if token.text.lower() in _RESERVED:
            raise self._error(f"{shown(token)} is a word of the language and cannot be a name.", token)
        self._next += 1
        return token.text

    def _expect(self, kind: str, where: str) -> None:
        token = self._tokens[self._next]
        if token.kind != kind:
            raise self._error(f"`{kind}` is expected {where}, not {shown(token)}.", token)
        self._next += 1

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"This is nested more than {MAX_DEPTH} deep.", self._tokens[self._next])

    def _grow(self, children: int, at: int, *, nodes: int = 1) -> None:
        """Count a node whose highest child has the height *children*."""
        self._height = children + 1
        self._nodes += nodes
        if self._height > MAX_DEPTH:
            raise ClassAdError(f"This is nested more than {MAX_DEPTH} deep.", text=self._text, at=at)
        if self._nodes > MAX_NODES:
            raise ClassAdError(f"The text has more than {MAX_NODES} parts.", text=self._text, at=at)

    def _error(self, problem: str, token: Token) -> ClassAdError:
        return ClassAdError(problem, text=self._text, at=token.at)
