"""Parser of job descriptions in the syntax of DIRAC's CFG files, with the attributes of the JDL.

A line is ``Name = value``; a section is ``Name`` and a block of such lines in braces. A value is a text up to the end
of its line; in lists, commas separate the elements, and ``+=`` adds further ones. Double quotes enclose a value or an
element; two of them inside stand for one. ``#`` starts a comment at the start of a line or after a blank, so ``a#b`` is
a value. Only ``Requirements`` and ``Environment`` are sections.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from resources.domain.classad import ClassAdError
from wms.jobs.domain.attribute_reader import AttributeReader, DescribedJob, Json, with_repeated
from wms.jobs.domain.jdl_fields import MAY_BE_EMPTY, WITHOUT_CASE
from wms.wire.jdl_texts import trimmed

MAX_BYTES: Final = 64 * 1024
MAX_LINES: Final = 10_000
#: Elements of all lists together.
MAX_ELEMENTS: Final = 10_000
MAX_NAME_CHARACTERS: Final = 255
#: Nested sections; none is valid inside another, but the error should say that, not that there is a brace too many.
MAX_DEPTH: Final = 8

_SECTIONS: Final = frozenset({"requirements", "environment"})
#: Skips quoted texts, in which a # starts no comment.
_COMMENT: Final = re.compile(r'(?P<quoted>"[^"]*+")|(?:^|(?<=[ \t]))#.*+')
#: Everything before the sign that decides the kind of line. All repetitions in these patterns are possessive.
_UP_TO_SIGN: Final = re.compile(r"[^={}]*+")
_BLANKS: Final = re.compile(r"\s*+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)?")
#: Names of requirements need not be identifiers.
_NAME_IN_SECTION: Final = re.compile(r"[^\s={}#\"](?:[^={}#\"]*[^\s={}#\"])?")
_QUOTED: Final = re.compile(r'"((?:[^"]++|"")*+)"')
_ELEMENT: Final = re.compile(r'\s*+(?:(?P<quoted>"(?:[^"]++|"")*+")(?=\s*+(?:,|$))|(?P<plain>[^,]*+))\s*+(?:,|$)')
#: Texts that look like numbers become numbers; the checks of the description refuse those that are too large.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,1000}")
_REAL: Final = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]{1,3})?")
#: Marks of expressions in requirements, such as ``> 4000`` and ``== 4000``, and separators of other syntaxes.
_EXPRESSION: Final = re.compile(r"[<>!=]$")
_FOREIGN: Final = re.compile(r"^=|[{};]")
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class InvalidCfgError(ClassAdError):
    """The CFG text cannot be parsed, or is not a job description; ``line`` and ``column`` give the place."""

    code = "invalid_cfg"


@dataclass(slots=True, kw_only=True)
class _Option:
    """One ``Name = value``."""

    name: str
    #: Several after ``+=``.
    values: list[str]
    #: Offsets in the text.
    at: int
    value_at: int
    #: The values as a list, and whether each was quoted; None: not split yet.
    elements: list[tuple[str, bool]] | None = None


@dataclass(slots=True, kw_only=True)
class _Section:
    """A block of lines; the outermost section has no name."""

    name: str = ""
    at: int = 0
    entries: "dict[str, _Option | _Section]" = field(default_factory=dict)


_Entry: TypeAlias = _Option | _Section


def parse_cfg(text: str) -> DescribedJob:
    """Return the job description in *text*, with the JSON names of the REST interface, not validated yet.

    Args:
        text: at most 64 kB.

    Raises:
        InvalidCfgError: with line and column.
    """
    # Windows editors put a byte order mark before the first name.
    text = " " + text[1:] if text.startswith("\ufeff") else text
    parser = _Parser(text)
    reader = _CfgReader(parser.section(), text)
    return with_repeated(reader.job(), parser.repeated)


class _Parser:
    """Splits the lines into sections."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Section] = [_Section()]
        #: Attributes that are given twice with one value.
        self.repeated: list[str] = []
        #: A section whose name was read and whose block has not begun.
        self._announced: _Section | None = None

    def section(self) -> _Section:
        """Return the outermost section."""
        if len(self._text.encode(errors="replace")) > MAX_BYTES:
            raise self._error(f"A description has at most {MAX_BYTES} bytes; use a sandbox for data.", 0)
        if (nul := self._text.find("\0")) >= 0:
            raise self._error("Remove the NUL character, which cannot be stored.", nul)
        at = 0
        for number, line in enumerate(self._text.split("\n")):
            if number >= MAX_LINES:
                raise self._error(f"A description has at most {MAX_LINES} lines.", at)
            self._line(_COMMENT.sub(lambda match: match["quoted"] or "", line), at)
            at += len(line) + 1
        if self._announced is not None:
            raise self._error(f"Write `=` and a value, or a block in braces, after `{self._announced.name}`.", at - 1)
        if len(self._open) > 1:
            raise self._error(f"The section `{self._open[-1].name}` is not closed; add a `}}`.", self._open[-1].at)
        return self._open[0]

    def _line(self, line: str, at: int) -> None:
        line = line.rstrip()
        begin = _end_of(_BLANKS, line, 0)
        while begin < len(line):
            begin = _end_of(_BLANKS, line, self._part(line, begin, at))

    def _part(self, line: str, begin: int, line_at: int) -> int:
        """Parse the part of a line that begins at *begin*; return its end."""
        at = line_at + begin
        if line[begin] == "{":
            self._begin(at)
            return begin + 1
        if self._announced is not None:
            raise self._error(f"Write `=` and a value, or a block in braces, after `{self._announced.name}`.", at)
        if line[begin] == "}":
            if len(self._open) == 1:
                raise self._error("This `}` closes nothing; remove it.", at)
            self._open.pop()
            return begin + 1
        end = _end_of(_UP_TO_SIGN, line, begin)
        name = line[begin:end]
        if line[end : end + 1] == "=":
            self._set(name, line[end + 1 :].lstrip(" \t"), at, line_at + len(line))
            return len(line)
        self._announced = _Section(name=self._checked(name.strip(), at), at=at)
        return end

    def _begin(self, at: int) -> None:
        if self._announced is None:
            raise self._error("Give the section a name: `Requirements {`.", at)
        if len(self._open) > MAX_DEPTH:
            raise self._error(f"Sections are at most {MAX_DEPTH} deep.", at)
        self._add(self._announced.name, self._announced, self._announced.at)
        self._open.append(self._announced)
        self._announced = None

    def _set(self, written: str, value: str, at: int, end: int) -> None:
        """Add ``written = value``; *written* ends with ``+`` if it adds to a list; *value* ends at *end*."""
        adds = written.endswith("+")
        name = self._checked((written[:-1] if adds else written).rstrip(" \t"), at)
        value_at = end - len(value)
        # A block on one line: { Memory = 4000 }
        if len(self._open) > 1 and value.endswith("}") and value.count("{") < value.count("}"):
            self._put(name, value[:-1].rstrip(), at, value_at, adds=adds)
            self._open.pop()
            return
        self._put(name, value, at, value_at, adds=adds)

    def _put(self, name: str, value: str, at: int, value_at: int, *, adds: bool) -> None:
        if value.endswith(";"):
            # In JDL a semicolon ends a value; here it would be part of it, as in the program "a;".
            hint = "A value ends with its line: remove the `;`, or put the value in double quotes."
            raise self._error(hint, value_at + len(value) - 1)
        earlier = self._open[-1].entries.get(name.lower())
        if adds and isinstance(earlier, _Option):
            earlier.values.append(value)
            return
        if isinstance(earlier, _Option) and len(self._open) == 1 and _is_equal(earlier, value):
            self.repeated.append(name)
            return
        self._add(name, _Option(name=name, values=[value], at=at, value_at=value_at), at)

    def _add(self, name: str, entry: _Entry, at: int) -> None:
        if name.lower() in self._open[-1].entries:
            raise self._error(f"`{name}` is given twice; keep one of them, or add to a list with `+=`.", at)
        self._open[-1].entries[name.lower()] = entry

    def _checked(self, name: str, at: int) -> str:
        if len(name) > MAX_NAME_CHARACTERS:
            raise self._error(f"A name has at most {MAX_NAME_CHARACTERS} characters.", at)
        pattern = _NAME if len(self._open) == 1 else _NAME_IN_SECTION
        if not pattern.fullmatch(name):
            raise self._error("Write a name, then `=` and its value: CPUTime = 3600", at)
        return name

    def _error(self, problem: str, at: int) -> InvalidCfgError:
        return InvalidCfgError(problem, text=self._text, at=max(0, min(at, len(self._text))))


class _CfgReader(AttributeReader):
    """Reads the options of the outermost section; all values are texts until their type is known."""

    list_hint = "A=1, B=2"

    def __init__(self, section: _Section, text: str) -> None:
        super().__init__()
        self._entries = section.entries
        self._text = text
        self._elements_left = MAX_ELEMENTS

    def names(self) -> Sequence[str]:
        return [entry.name for entry in self._entries.values() if not _is_empty(entry)]

    def constant(self, name: str) -> Json:
        return self._typed(self._option(name))

    def text(self, name: str) -> str:
        return _unquoted(self._only_value(name)).strip()

    def _only_value(self, name: str) -> str:
        option = self._option(name)
        if len(option.values) > 1:
            raise self.value_error(name, f"`{name}` is not a list; only lists accept `+=`.")
        return option.values[0]

    def strings(self, name: str) -> list[str]:
        option = self._option(name)
        if any(value.startswith("{") and value.endswith("}") for value in option.values):
            raise self.value_error(name, f"Write a list without braces: {name} = a, b")
        return list(filter(None, [trimmed(element) for element, _ in self._elements(option)]))

    def name_list(self, name: str) -> list[str]:
        return self.strings(name)

    def arguments(self, name: str) -> Json:
        return _unquoted(self._only_value(name))

    def requirements(self, name: str) -> Json:
        value = self.record(name)
        if value is None:
            hint = "Requirements must be a section: Requirements { Memory = 4000 }; an expression is not accepted."
            raise self.value_error(name, hint)
        entry = self._entries[name.lower()]
        for inner in entry.entries.values() if isinstance(entry, _Section) else ():
            if isinstance(inner, _Option):
                self._refuse_expression(inner)
        return value

    def _refuse_expression(self, option: _Option) -> None:
        plain = [element for element, quoted in self._elements(option) if not quoted]
        if _EXPRESSION.search(option.name) or any(map(_FOREIGN.search, plain)):
            hint = "Write `Name = value`, a line for each name and commas in lists; an expression is not accepted."
            raise self._error(f"{hint} Put a value with = {{ }} or ; in double quotes.", option.at)

    def record(self, name: str) -> dict[str, Json] | None:
        entry = self._entries[name.lower()]
        if isinstance(entry, _Option):
            return None
        environment = entry.name.lower() == "environment"
        values: dict[str, Json] = {}
        for inner in entry.entries.values():
            if isinstance(inner, _Section):
                raise self._error(f"`{entry.name}` holds names with values, no sections.", inner.at)
            values[inner.name] = _unquoted(", ".join(inner.values)) if environment else self._typed(inner)
        return values

    def name_error(self, name: str, problem: str) -> ClassAdError:
        return self._error(problem, self._entries[name.lower()].at)

    def value_error(self, name: str, problem: str) -> ClassAdError:
        entry = self._entries[name.lower()]
        return self._error(problem, entry.value_at if isinstance(entry, _Option) else entry.at)

    def _option(self, name: str) -> _Option:
        entry = self._entries[name.lower()]
        if isinstance(entry, _Section):
            hint = " Only Requirements and Environment are sections." if name.lower() not in _SECTIONS else ""
            raise self.name_error(name, f"`{name}` must be a value: {name} = …{hint}")
        return entry

    def _elements(self, option: _Option) -> list[tuple[str, bool]]:
        """Return the elements of a list, each with whether it was quoted; an empty value is an empty list."""
        if option.elements is None:
            option.elements = self._split(option)
        return option.elements

    def _split(self, option: _Option) -> list[tuple[str, bool]]:
        elements: list[tuple[str, bool]] = []
        for value in filter(None, option.values):
            at = 0
            while at < len(value) or value[at - 1] == ",":
                element = _ELEMENT.match(value, at)
                if element is None or not (element["quoted"] is not None or element["plain"].strip()):
                    raise self._error(f"`{option.name}` has an empty element; remove a comma.", option.value_at)
                self._elements_left -= 1
                if self._elements_left < 0:
                    raise self._error(f"Lists have at most {MAX_ELEMENTS} elements in all.", option.value_at)
                quoted = element["quoted"] is not None
                elements.append((_unquoted(element["quoted"]) if quoted else element["plain"].strip(), quoted))
                at = max(element.end(), at + 1)
                if value[element.end() - 1 : element.end()] != ",":
                    break
        return elements

    def _typed(self, option: _Option) -> Json:
        """Return the list, or its only element; unquoted numbers, true and false are not texts."""
        elements = [element if quoted else _scalar(element) for element, quoted in self._elements(option)]
        if not elements:
            raise self._error(f"`{option.name}` has no value.", option.at)
        return elements[0] if len(elements) == 1 else elements

    def _error(self, problem: str, at: int) -> InvalidCfgError:
        return InvalidCfgError(problem, text=self._text, at=at)


def _end_of(pattern: re.Pattern[str], line: str, begin: int) -> int:
    """Return the end of what *pattern* matches at *begin*; *begin* if nothing."""
    match = pattern.match(line, begin)
    return begin if match is None else match.end()


def _unquoted(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return value if quoted is None else quoted[1].replace('""', '"')


def _is_equal(earlier: _Option, value: str) -> bool:
    """Return whether an attribute is given again with the value that it has."""
    if earlier.name.lower() in WITHOUT_CASE:
        return [_unquoted(each).strip().lower() for each in earlier.values] == [_unquoted(value).strip().lower()]
    return earlier.values == [value]


def _is_empty(entry: _Entry) -> bool:
    """Return whether the attribute is as if it were absent."""
    if isinstance(entry, _Section) or entry.name.lower() in MAY_BE_EMPTY:
        return False
    return not any(_unquoted(value).strip() for value in entry.values)


def _scalar(text: str) -> Json:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text
