r"""Regular expressions of ``regexp``: those of PCRE whose search takes a time that is bounded by pattern × text.

A subset of PCRE, with its meaning. Patterns and texts are UTF-8 bytes, as in classad2, so that ``.`` is one byte:

- characters; ``.``; classes ``[a-z]``, ``[^…]``, ``[[:alpha:]]``; ``\d \w \s \D \W \S``;
  ``\t \n \r \f \e \a \x41``
- ``^ $ \A \Z \z \b \B``; groups ``( )`` and ``(?: )``; ``|``; ``* + ? {2} {2,} {2,5}``, also with ``?``

Options: i (letter case of ASCII does not count), m (``^`` and ``$`` at lines), s (``.`` is a line end too), x (blanks
and comments); others have no effect. Back-references, look-around, possessive quantifiers and options within a pattern
are refused: a search cannot go back. All ways through the pattern are followed at once (Thompson's construction).
"""

import string
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

MAX_PATTERN_BYTES: Final = 256
#: Bytes of a text that is searched.
MAX_TEXT_BYTES: Final = 4096
#: Largest number in a quantifier.
MAX_REPEATS: Final = 100
#: Instructions of a pattern, after repeated parts were copied.
MAX_INSTRUCTIONS: Final = 1000
_MAX_DEPTH: Final = 20

_Set: TypeAlias = frozenset[int]
_ALL: Final[_Set] = frozenset(range(256))
_LINE_END: Final = ord("\n")


def _bytes_of(characters: str) -> _Set:
    return frozenset(characters.encode())


_DIGITS: Final = _bytes_of(string.digits)
_WORD: Final = _bytes_of(string.ascii_letters + string.digits + "_")
_SPACE: Final = _bytes_of(" \t\n\v\f\r")
_LOWER: Final = _bytes_of(string.ascii_lowercase)
_UPPER: Final = _bytes_of(string.ascii_uppercase)
_PUNCTUATION: Final = _bytes_of(string.punctuation)
_GRAPH: Final = _PUNCTUATION | _LOWER | _UPPER | _DIGITS
#: Escapes that stand for sets, and those for one character.
_SETS: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE, "D": _ALL - _DIGITS, "W": _ALL - _WORD, "S": _ALL - _SPACE}
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "e": "\x1b", "a": "\a"}
_POSIX: Final = {
    "alpha": _LOWER | _UPPER, "digit": _DIGITS, "alnum": _LOWER | _UPPER | _DIGITS, "upper": _UPPER, "lower": _LOWER,
    "space": _SPACE, "blank": _bytes_of(" \t"), "punct": _PUNCTUATION, "print": _GRAPH | {ord(" ")},
    "graph": _GRAPH, "xdigit": _bytes_of(string.hexdigits), "word": _WORD, "cntrl": frozenset(range(32)) | {127},
    "ascii": frozenset(range(128)),
}  # fmt: skip
_NOTHING_TO_REPEAT: Final = "A quantifier (* + ? {2}) of the regular expression follows nothing that can be repeated."


class PatternError(ValueError):
    """The pattern is not a regular expression of this kind; the text says why, and ends with a full stop."""


class _Take(NamedTuple):
    """Take one byte of a set, then go on."""

    bytes: _Set
    then: int


class _Fork(NamedTuple):
    """Go on at each of these."""

    ways: tuple[int, ...]


class _Require(NamedTuple):
    """Go on where the position in the text is one of a kind: ^, $, A, Z, z, b or B; ^ and $ of lines are l and L."""

    kind: str
    then: int


class _Found(NamedTuple):
    """The pattern was found."""


#: Of instructions, each with the numbers of those that follow; the last one is the first to carry out.
Program: TypeAlias = tuple[_Take | _Fork | _Require | _Found, ...]
#: Adds the instructions of a part of the pattern in front of the one with this number; returns the number of the first.
_Part: TypeAlias = Callable[["_Builder", int], int]


class _Builder:
    """The instructions so far, last ones first."""

    def __init__(self) -> None:
        self.program: list[_Take | _Fork | _Require | _Found] = [_Found()]

    def add(self, instruction: _Take | _Fork | _Require) -> int:
        """Add an instruction and return its number."""
        if len(self.program) >= MAX_INSTRUCTIONS:
            raise PatternError("The regular expression is too large, with its repeated parts.")
        self.program.append(instruction)
        return len(self.program) - 1


@lru_cache(maxsize=500)
def compiled(pattern: str, options: str = "") -> Program:
    """Return the program of a pattern.

    Raises:
        PatternError: it is not a regular expression, or uses what there is not.
    """
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise PatternError(f"A regular expression has at most {MAX_PATTERN_BYTES} bytes.")
    builder = _Builder()
    first = _Parser(pattern, options).whole()(builder, 0)
    if first != len(builder.program) - 1:
        builder.add(_Fork((first,)))
    return tuple(builder.program)


def is_found(program: Program, text: bytes, *, spend: Callable[[int], None]) -> bool:
    """Return whether a part of *text* has the form of the pattern.

    Args:
        program: of the pattern.
        text: at most MAX_TEXT_BYTES.
        spend: called with numbers of instructions carried out, at most all of them for each position; may raise.
    """
    here: set[int] = set()
    for at in range(len(text) + 1):
        here.add(len(program) - 1)
        takes, carried_out, is_done = _reached(program, here, text, at)
        spend(carried_out)
        if is_done:
            return True
        here = {take.then for take in takes if at < len(text) and text[at] in take.bytes}
    return False


def _reached(program: Program, begun: set[int], text: bytes, at: int) -> tuple[list[_Take], int, bool]:
    """Return the takes that are reached without one, the number of instructions for it, and whether the end is."""
    takes: list[_Take] = []
    seen, left = set(begun), list(begun)
    while left:
        instruction = program[left.pop()]
        ways: tuple[int, ...] = ()
        if isinstance(instruction, _Take):
            takes.append(instruction)
        elif isinstance(instruction, _Fork):
            ways = instruction.ways
        elif isinstance(instruction, _Found):
            return takes, len(seen), True
        elif _is_at(instruction.kind, text, at):
            ways = (instruction.then,)
        for way in ways:
            if way not in seen:
                seen.add(way)
                left.append(way)
    return takes, len(seen), False


def _is_at(kind: str, text: bytes, at: int) -> bool:
    size = len(text)
    if kind in "bB":
        before, after = at > 0 and text[at - 1] in _WORD, at < size and text[at] in _WORD
        return (before != after) is (kind == "b")
    is_end = at == size
    if kind == "l":
        return at == 0 or (not is_end and text[at - 1] == _LINE_END)
    if kind == "L":
        return is_end or text[at] == _LINE_END
    if kind in "^A":
        return at == 0
    return is_end or (kind != "z" and at == size - 1 and text[at] == _LINE_END)


class _Parser:
    """Parser of one pattern."""

    def __init__(self, pattern: str, options: str) -> None:
        # One character for each byte: a letter that is not ASCII is two or more.
        self._pattern = pattern.encode().decode("latin-1")
        self._options = frozenset(options)
        self._at = 0
        self._depth = 0

    def whole(self) -> _Part:
        part = self._alternatives()
        if self._at < len(self._pattern):
            raise PatternError("The regular expression closes a parenthesis that is not open; \\) is the character.")
        return part

    def _next(self, length: int = 1) -> str:
        return self._pattern[self._at : self._at + length]

    def _skip(self, text: str) -> bool:
        """Skip *text*, if it comes next, and return whether it did."""
        is_next = self._pattern.startswith(text, self._at)
        self._at += len(text) * is_next
        return is_next

    def _skip_blanks(self) -> None:
        while "x" in self._options and self._next() and (self._next() in " \t\n\v\f\r#"):
            end = self._pattern.find("\n", self._at) if self._next() == "#" else self._at
            self._at = len(self._pattern) if end < 0 else end + 1

    def _alternatives(self) -> _Part:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise PatternError(f"Groups of a regular expression are nested at most {_MAX_DEPTH} deep.")
        parts = [self._sequence()]
        while self._skip("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _either(parts)

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while True:
            self._skip_blanks()
            if not self._next() or self._next() in "|)":
                return _in_order(parts)
            part, is_repeatable = self._item()
            self._skip_blanks()
            bounds = self._quantifier()
            if bounds is None:
                parts.append(part)
                continue
            self._skip_blanks()
            if not is_repeatable or self._quantifier() is not None:
                raise PatternError(_NOTHING_TO_REPEAT)
            parts.append(_repeated(part, *bounds))

    def _quantifier(self) -> tuple[int, int | None] | None:
        """Return the least and the largest number of a quantifier that comes next; None: none does, or no bound."""
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        bounds: tuple[int, int | None] | None = simple.get(self._next())
        if bounds is not None:
            self._at += 1
        elif (bounds := self._counted()) is None:
            return None
        if self._skip("+"):
            raise PatternError("A regular expression here has no possessive quantifiers.")
        self._skip("?")  # a search without captures finds the same with a lazy one
        return bounds

    def _counted(self) -> tuple[int, int | None] | None:
        """Return the bounds of ``{2}``, ``{2,}`` or ``{2,5}``; None: another brace, which is a character."""
        end = self._pattern.find("}", self._at)
        least, comma, most = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        digits = [number for number in (least, most) if number]
        if self._next() != "{" or not least or not all(number.isascii() and number.isdigit() for number in digits):
            return None
        self._at = end + 1
        bounds = [int(number) if len(number) <= len(str(MAX_REPEATS)) else MAX_REPEATS + 1 for number in digits]
        if max(bounds) > MAX_REPEATS or bounds != sorted(bounds):
            raise PatternError(
                f"A quantifier of a regular expression has numbers up to {MAX_REPEATS}, the smaller one first."
            )
        return bounds[0], None if comma and not most else bounds[-1]

    def _item(self) -> tuple[_Part, bool]:
        """Return the next part, and whether it may be repeated."""
        character = self._next()
        self._at += 1
        if character == "(":
            return self._group(), True
        if character == "[":
            return self._taking(self._class()), True
        if character == "\\":
            return self._escape()
        if character in "^$":
            kind = {"^": "l", "$": "L"}[character] if "m" in self._options else character
            return _requiring(kind), False
        if character == ".":
            return self._taking(_ALL if "s" in self._options else _ALL - {_LINE_END}), True
        self._at -= 1
        if self._quantifier() is not None:
            raise PatternError(_NOTHING_TO_REPEAT)
        self._at += 1
        return self._taking(frozenset({ord(character)})), True

    def _group(self) -> _Part:
        if not self._skip("?:") and self._next() in ("?", "*"):
            raise PatternError("A regular expression here has no look-around, and no options or names in a group.")
        part = self._alternatives()
        if not self._skip(")"):
            raise PatternError("A parenthesis of the regular expression is not closed; \\( is the character.")
        return part

    def _escape(self) -> tuple[_Part, bool]:
        letter = self._next()
        if letter and letter in "AZzbB":
            self._at += 1
            return _requiring(letter), False
        return self._taking(self._escaped()), True

    def _escaped(self) -> _Set:
        """Return the bytes of the escape whose backslash was read."""
        letter = self._next()
        self._at += 1
        if letter in _SETS:
            return _SETS[letter]
        if letter == "x":
            digits = self._next(2)
            if len(digits) < 2 or not set(digits) <= set(string.hexdigits):
                raise PatternError("\\x of a regular expression has two hexadecimal digits: \\x41.")
            self._at += 2
            return frozenset({int(digits, 16)})
        if letter in _CHARACTERS:
            return _bytes_of(_CHARACTERS[letter])
        if not letter or (letter.isascii() and letter.isalnum()):
            hint = "has no back-references" if letter.isdigit() else "does not know that escape"
            raise PatternError(f"\\{letter} is not possible: a regular expression here {hint}.")
        return frozenset({ord(letter)})

    def _class(self) -> _Set:
        """Return the bytes of the class whose bracket was read."""
        is_negated = self._skip("^")
        found: _Set = frozenset()
        is_first = True
        while is_first or self._next() != "]":
            is_first = False
            members, is_one = self._member()
            if self._next() == "-" and self._next(2) not in {"-", "-]"}:
                self._at += 1
                last, is_last_one = self._member()
                if not is_one or not is_last_one or min(last) < min(members):
                    raise PatternError("A range in a class of the regular expression is invalid; write a-z.")
                members = frozenset(range(min(members), min(last) + 1))
            found |= members
        self._at += 1
        found = self._with_both_cases(found)
        return _ALL - found if is_negated else found

    def _member(self) -> tuple[_Set, bool]:
        """Return the next member of a class, and whether it is one character."""
        character = self._next()
        if not character:
            raise PatternError("A class of the regular expression is not closed; \\[ is the character.")
        if (
            self._next(2) in {"[:", "[.", "[="}
            and (end := self._pattern.find(f"{self._next(2)[1]}]", self._at + 2)) > 0
        ):
            return self._posix(end), False
        self._at += 1
        if character != "\\":
            return frozenset({ord(character)}), True
        if self._skip("b"):
            return _bytes_of("\b"), True
        is_one = self._next() not in _SETS
        return self._escaped(), is_one

    def _posix(self, end: int) -> _Set:
        name = self._pattern[self._at + 2 : end]
        members = _POSIX.get(name.removeprefix("^")) if self._next(2) == "[:" else None
        if members is None:
            raise PatternError("A regular expression has no such class; there are [:alpha:], [:digit:] and the like.")
        self._at = end + 2
        members = self._with_both_cases(members)
        return _ALL - members if name.startswith("^") else members

    def _taking(self, members: _Set) -> _Part:
        members = self._with_both_cases(members)
        return lambda builder, then: builder.add(_Take(members, then))

    def _with_both_cases(self, members: _Set) -> _Set:
        if "i" not in self._options:
            return members
        letters = bytes(members)
        return members | frozenset(letters.lower()) | frozenset(letters.upper())


def _requiring(kind: str) -> _Part:
    return lambda builder, then: builder.add(_Require(kind, then))


def _in_order(parts: list[_Part]) -> _Part:
    def add(builder: _Builder, then: int) -> int:
        for part in reversed(parts):
            then = part(builder, then)
        return then

    return add


def _either(parts: list[_Part]) -> _Part:
    return lambda builder, then: builder.add(_Fork(tuple([part(builder, then) for part in parts])))


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    """Return a part that comes at least, and at most, so many times; None: without end."""

    def add(builder: _Builder, then: int) -> int:
        if most is None:
            again = builder.add(_Fork((then,)))
            builder.program[again] = _Fork((part(builder, again), then))
            then = again
        else:
            for _ in range(most - least):
                then = builder.add(_Fork((part(builder, then), then)))
        for _ in range(least):
            then = part(builder, then)
        return then

    return add
