"""Parser of JDL, DIRAC's job description in ClassAd syntax, into the JSON description of the REST interface.

Attribute names are DIRAC's, in any letter case. A value may be any constant expression, also over other attributes
(``CPUTime = 3600 * 24``), but where a text or a list of texts is expected, one without quotes stands for itself, as in
DIRAC: ``JobName = my first job``. Only the form is checked here; ``description.parse`` checks the values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from resources.domain.classad import ERROR, MAX_BYTES, UNDEFINED, ClassAd, ClassAdError, Value, parse_classad, values_of
from wms.jobs.domain.attribute_reader import AttributeReader, DescribedJob, Json, in_words, with_repeated
from wms.jobs.domain.fields import shown
from wms.jobs.domain.jdl_attributes import BY_NAME, IN_EXPRESSIONS, Kind
from wms.jobs.domain.jdl_fields import (
    ATTRIBUTES,
    FRACTIONS,
    LISTS,
    MAY_BE_EMPTY,
    NUMBERS,
    SEQUENCES,
    TEXTS,
    WITHOUT_CASE,
    attribute_of,
    field_hint,
)
from wms.jobs.domain.placeholders import is_placeholder
from wms.kernel.names import listed, separated
from wms.wire.jdl_texts import (
    JdlEntry,
    JdlValue,
    entries,
    file_name,
    names_in,
    odd_escape,
    texts_of,
    trimmed,
    unescaped,
)

__all__ = [
    "ATTRIBUTES",
    "FRACTIONS",
    "LISTS",
    "NUMBERS",
    "SEQUENCES",
    "TEXTS",
    "AttributeReader",
    "DescribedJob",
    "InvalidJdlError",
    "Json",
    "attribute_of",
    "field_hint",
    "parse_jdl",
]

#: The beginning of ``Name = …``. No blank is read twice, whatever the text: lines before it are not part of it.
_ASSIGNMENT: Final = re.compile(r"(?:\A|[;\[\n])[ \t\r]*+([A-Za-z_][A-Za-z0-9_.]*+)\s*+=(?![=?!])\s*+")
_NEXT_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*+\s*+=(?![=?!])")
#: The quote that seems to end a string, and a later one of its line.
_INNER_QUOTE: Final = re.compile(r'"[ \t]*+\Z')
_FURTHER_QUOTE: Final = re.compile(r'[^",;\n][^"\n]*+"')
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
#: Attributes with expressions, of which the names of functions are not known here.
_EXPRESSIONS: Final = frozenset({"requirements", "rank", "fuzzyrank"})
_REQUIREMENTS_HINT: Final = (
    'Requirements must be a record of constants, such as [ SoftwareTag = { "v1", "v2" }; Memory = 4000; ]; '
    "an expression is not accepted."
)
_INSTEAD: Final = {name.lower(): attribute for name, attribute in IN_EXPRESSIONS.items()}
#: Fields whose text may stand in a list, as DIRAC writes it; the first one is used.
_FIRST_OF_LIST: Final = frozenset({"output_se", "output_path"})
#: Fields that take a list though they are of another kind.
_ALSO_LISTS: Final = _FIRST_OF_LIST | {"environment"}
#: Fields with lists of files, of which one text may name several, with commas.
_FILES: Final = frozenset({"input_sandbox", "output_sandbox", "input_data", "output_data"})
_ASSIGNMENT_OF_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+\s*+=")
_CHARACTERS: Final = {"\b": "a backspace", "\t": "a tab", "\n": "a line end", "\f": "a form feed", "\r": "a return"}
#: A number that is printed as it is written.
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.(?:0|[0-9]*[1-9]))?")


class InvalidJdlError(ClassAdError):
    """The JDL cannot be parsed, or is not a job description; ``line`` and ``column`` give the place."""

    code = "invalid_jdl"


def parse_jdl(text: str) -> DescribedJob:
    """Return the job description in *text*, with the JSON names of the REST interface, not validated yet.

    Args:
        text: ``[ Executable = "…"; … ]``, with or without the brackets; at most 64 kB.

    Raises:
        InvalidJdlError: with line and column.
    """
    prepared = _prepared(text)
    try:
        ad = parse_classad("".join(prepared.characters), dotted_names=True, texts=prepared.texts)
    except ClassAdError as error:
        hint = _syntax_hint(text, error.at, problem=error.problem)
        raise InvalidJdlError(f"{error.problem}{hint}", text=text, at=error.at) from error
    try:
        return _JdlReader(ad, prepared).job()
    except ClassAdError as error:
        raise InvalidJdlError(error.problem, text=text, at=error.at) from error


@dataclass(slots=True)
class _Prepared:
    """A JDL that can be parsed as a ClassAd; all offsets are those of the JDL as written."""

    text: str
    #: With blanks for attributes and elements without a value, and for attributes that repeat an earlier one.
    characters: list[str]
    #: {begin: end} of the texts without quotes.
    texts: dict[int, int] = field(default_factory=dict)
    #: Attributes with such texts, without those that are ignored or refused.
    unquoted: list[str] = field(default_factory=list)
    #: Attributes that are given twice with one value.
    repeated: list[str] = field(default_factory=list)
    #: Attributes that are expressions, or lists with some.
    computed: set[str] = field(default_factory=set)
    #: {attribute: its first escape that is not of a quote or backslash}.
    escapes: dict[str, str] = field(default_factory=dict)

    def remove(self, begin: int, end: int) -> None:
        self.characters[begin:end] = ["\n" if each == "\n" else " " for each in self.characters[begin:end]]

    def add(self, entry: JdlEntry) -> None:
        """Note the texts of an attribute that is given for the first time."""
        name, value = entry.name, entry.value
        attribute = BY_NAME.get(name.partition(".")[0].lower())
        kind = Kind.REFUSED if attribute is None else attribute.kind
        if value.is_broken_list and _takes_list(name):
            hint = 'The list cannot be read: write { "a", "b" }, each element in double quotes.'
            raise InvalidJdlError(hint, text=self.text, at=value.begin)
        texts = [
            part
            for part in texts_of(value)
            if attribute is None
            or attribute.has_texts
            or _is_text_of_sequence(part, entry, kind)
            or (kind is Kind.NUMBER and is_placeholder(part.text))
        ]
        raw = [part for part in texts if part.text and not part.is_quoted]
        self.texts.update({part.begin: part.end for part in raw})
        for part in texts:
            if part.is_empty:
                self.remove(part.begin, part.end)
        if kind not in {Kind.IGNORED, Kind.REFUSED}:
            if escape := odd_escape(self.text, value.begin, value.end):
                self.escapes[name] = escape
            if _is_computed(value):
                self.computed.add(name)
            if not all(_NUMBER.fullmatch(part.text or "") for part in raw):
                self.unquoted.append(name)


def _prepared(text: str) -> _Prepared:
    prepared = _Prepared(text, list(text))
    first_of: dict[str, JdlEntry] = {}
    for entry in entries(text) if len(text) <= MAX_BYTES else ():
        if _is_empty(entry):
            prepared.remove(entry.begin, entry.value.end)
            continue
        first = first_of.setdefault(entry.name.lower(), entry)
        if first is entry:
            prepared.add(entry)
        elif _is_equal(first, entry, text):
            prepared.remove(entry.begin, entry.value.end)
            prepared.repeated.append(entry.name)
    return prepared


def _takes_list(name: str) -> bool:
    attribute = BY_NAME.get(name.lower())
    return attribute is not None and (attribute.kind is Kind.LIST or attribute.field in _ALSO_LISTS)


def _is_computed(value: JdlValue) -> bool:
    """Return whether a value, or an element of it, is an expression."""
    return value.text is None if value.elements is None else any(map(_is_computed, value.elements))


def _is_empty(entry: JdlEntry) -> bool:
    """Return whether the attribute is as if it were absent."""
    name, value = entry.name.lower(), entry.value
    if value.elements is not None:
        is_one_text = name in BY_NAME and BY_NAME[name].field in _FIRST_OF_LIST
        return is_one_text and not any(element.text is None or element.text.strip() for element in value.elements)
    return value.is_empty or (value.text is not None and not value.text.strip() and name not in MAY_BE_EMPTY)


def _is_text_of_sequence(part: JdlValue, entry: JdlEntry, kind: Kind) -> bool:
    """Return whether this is a value in a list of parameters that is not a number."""
    return kind is Kind.SEQUENCE and entry.value.elements is not None and not _NUMBER.fullmatch(part.text or "")


def _is_equal(first: JdlEntry, second: JdlEntry, text: str) -> bool:
    """Return whether an attribute is given twice with one value."""
    given = [_given(entry.value, text) for entry in (first, second)]
    if first.name.lower() in WITHOUT_CASE:
        given = [str(each).strip().lower() for each in given]
    return given[0] == given[1]


def _given(value: JdlValue, text: str) -> object:
    """Return the value in a form that is equal for equal ones."""
    if value.elements is not None:
        return [_given(element, text) for element in value.elements]
    return text[value.begin : value.end].strip() if value.text is None else value.text.strip()


class _JdlReader(AttributeReader):
    """Reads the attributes of one ad."""

    list_hint = '{ "A=1", "B=2" }'

    def __init__(self, ad: ClassAd, prepared: _Prepared) -> None:
        super().__init__()
        self._ad = ad
        self._values = values_of(ad)
        self._prepared = prepared

    def job(self) -> DescribedJob:
        job = with_repeated(super().job(), self._prepared.repeated)
        return replace(job, warnings=(*job.warnings, *self._of_quotes()))

    def _of_quotes(self) -> Iterator[str]:
        """Yield the warnings about texts with and without quotes."""
        if escapes := self._prepared.escapes:
            first = next(iter(escapes.values()))
            read = _CHARACTERS.get(unescaped(first), unescaped(first))
            names = in_words(list(escapes))
            first = first.replace("\n", "(line end)")
            yield f"In double quotes {first} is read as {read}; for {first} as it stands write \\{first}, in {names}."
        if self._prepared.unquoted:
            names = in_words(self._prepared.unquoted)
            yield f"Texts without double quotes are read as they stand, in {names}; put them in double quotes."

    def names(self) -> Sequence[str]:
        return self._ad.names

    def constant(self, name: str) -> Json:
        value = self._values[name]
        if not _is_constant(value):
            problem = (
                f"The value of `{name}` is not a constant: a name in it is undefined (a text stands in double quotes), "
                "or it cannot be computed."
            )
            raise self.value_error(name, problem)
        return _as_json(value)

    def text(self, name: str) -> str:
        value = self.constant(name)
        if isinstance(value, list) and value and BY_NAME[name.lower()].field in _FIRST_OF_LIST:
            value = self._first_of(name, value)
        if not isinstance(value, str):
            raise self.value_error(name, f'`{name}` must be a string: {name} = "…";')
        return value.strip()

    def strings(self, name: str) -> list[str]:
        if name in self._prepared.computed and BY_NAME[name.lower()].field == "input_sandbox":
            # The client would not find the files to upload.
            hint = f'write the names of the files: {name} = {{ "a.sh", "b.txt" }};'
            raise self.value_error(name, f"`{name}` must not be an expression; {hint}")
        value = self._joined(name) if BY_NAME[name.lower()].field in _FILES else self.constant(name)
        if isinstance(value, str):
            return self._in_one_text(name, value)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.value_error(name, f'`{name}` must be a string or a list of strings: {name} = {{ "…", "…" }};')
        return list(filter(None, map(trimmed, value)))

    def _joined(self, name: str) -> Json:
        """Return the value, with each name of a file in one line."""
        value = self.constant(name)
        parts = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
        if any("\n" in part.strip() for part in parts if isinstance(part, str)):
            self._warnings.append(
                f"{name} has a name of several lines; their ends, and the blanks beside them, are left out."
            )
        if isinstance(value, list):
            return [file_name(each) if isinstance(each, str) else each for each in value]
        return file_name(value) if isinstance(value, str) else value

    def _in_one_text(self, name: str, value: str) -> list[str]:
        """Return the names of files, or the assignments, in one text; as in DIRAC, commas are between them."""
        field = BY_NAME[name.lower()].field
        parts = names_in(value)
        assignments = [part for part in parts if _ASSIGNMENT_OF_VARIABLE.match(part)] if field == "environment" else []
        if 1 < len(assignments) < len(parts):
            variable, _, content = value.partition("=")
            self._warnings.append(
                f"{name} is one text of which only some parts are assignments, so {variable.strip()} is "
                f'{shown(content.strip())}. Write {name} = {{ "A=1", "B=2" }};'
            )
        if field in _FILES or len(assignments) == len(parts):
            if len(parts) > 1:
                self._warnings.append(
                    f"{name} is one text with commas; it is read as {len(parts)} entries, as in DIRAC. "
                    f'Write {name} = {{ "a", "b" }};'
                )
            value, *others = parts or [""]
        else:
            others = []
        if ";" in value and field in _FILES:
            self._warnings.append(f'{name} has a name with a semicolon; several names are {name} = {{ "a", "b" }};')
        return list(filter(None, map(trimmed, [value, *others])))

    def name_list(self, name: str) -> list[str]:
        names = self.strings(name)
        return separated(names[0]) if not isinstance(self._values[name], tuple) and names else names

    def arguments(self, name: str) -> Json:
        value = self.constant(name)
        return str(value) if type(value) in {int, float} else value

    def requirements(self, name: str) -> Json:
        if not isinstance(self._values[name], Mapping):
            raise self.value_error(name, f"{_REQUIREMENTS_HINT}{_instead(self._ad.text, self._at(name))}")
        return self.constant(name)

    def _at(self, name: str) -> int:
        expression = self._ad.expression(name)
        return 0 if expression is None else expression.root.at

    def record(self, name: str) -> dict[str, Json] | None:
        value = self.constant(name)
        return value if isinstance(value, dict) else None

    def name_error(self, name: str, problem: str) -> ClassAdError:
        return self._ad.error(name, problem)

    def value_error(self, name: str, problem: str) -> ClassAdError:
        expression = self._ad.expression(name)
        return self._ad.error(name, problem) if expression is None else expression.error(problem)


def _is_constant(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if isinstance(value, Mapping):
        return all(map(_is_constant, value.values()))
    return value is not UNDEFINED and value is not ERROR


def _as_json(value: Value) -> Json:
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    return value


def _syntax_hint(text: str, at: int, *, problem: str) -> str:
    """Return a hint, with a leading space, for an error of the syntax at this place; else an empty string."""
    if text[at : at + 1] == "#":
        return " A comment behind a value begins with //."
    if text[at : at + 1] == "=":
        return " A text with = in it stands in double quotes."
    assignments = list(_ASSIGNMENT.finditer(text, 0, at + 1))
    if not assignments:
        return ""
    begun = assignments[-1]
    name = begun[1]
    if name.lower() == "requirements":
        return f" {_REQUIREMENTS_HINT}{_instead(text, begun.end())}"
    if name.lower() in _EXPRESSIONS:
        return f" {name} has no effect here; leave it out."
    # Where another attribute begins, nothing is wrong with the value.
    return "" if _NEXT_ASSIGNMENT.match(text, at) else _value_hint(text, at, begun, problem=problem)


def _value_hint(text: str, at: int, begun: re.Match[str], *, problem: str) -> str:
    """Return the hint for an error in the value of an attribute."""
    name = begun[1]
    if problem.startswith("`;` is expected") and text[at] == "," and _takes_list(name):
        return f' A list stands in braces: {name} = {{ "A", "B" }};'
    if _INNER_QUOTE.search(text, begun.end(), at) and _FURTHER_QUOTE.match(text, at):
        return ' A quote inside a string is \\".'
    first = text[begun.end() :].lstrip("{ \t\n")[:1]
    return f' A text stands in double quotes: {name} = "…";' if first.isalpha() or first in set("/$%~*") else ""


def _instead(text: str, begin: int) -> str:
    """Return which attributes require what the names in an expression mean, with a leading space."""
    end = text.find(";", begin)
    words = _WORD.findall(text, begin, len(text) if end < 0 else end)
    found = dict.fromkeys((word, _INSTEAD[word.lower()]) for word in words if word.lower() in _INSTEAD)
    return f" Write instead: {listed([f'{new} for {old}' for old, new in found])}." if found else ""
