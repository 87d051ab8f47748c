"""Parser of JDL, DIRAC's job description in ClassAd syntax, into the JSON description of the REST interface.

Attribute names are DIRAC's, in any letter case. A value may be any constant expression, also over other attributes
(``CPUTime = 3600 * 24``). A name that is no attribute stands for itself, as in DIRAC, which writes texts without
quotes: ``StdOutput = std.out``. Only the form is checked here; ``description.parse`` checks the values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from resources.domain.classad import ERROR, UNDEFINED, ClassAd, ClassAdError, Value, parse_classad, values_of
from resources.domain.classad.tree import AdScope, Attribute, ListExpression, Node, Path
from wms.jobs.domain.attribute_reader import AttributeReader, DescribedJob, Json, in_words
from wms.jobs.domain.fields import shown
from wms.jobs.domain.jdl_attributes import BY_NAME, IN_EXPRESSIONS
from wms.jobs.domain.jdl_fields import (
    ATTRIBUTES,
    FRACTIONS,
    LISTS,
    NAME_FIELDS,
    NUMBERS,
    SEQUENCES,
    TEXTS,
    attribute_of,
    field_hint,
)
from wms.kernel.names import listed, separated

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
    try:
        ad = parse_classad(text, dotted_names=True)
    except ClassAdError as error:
        raise InvalidJdlError(f"{error.problem}{_syntax_hint(text, error.at)}", text=text, at=error.at) from error
    try:
        return _JdlReader(ad).job()
    except ClassAdError as error:
        raise InvalidJdlError(error.problem, text=text, at=error.at) from error


class _JdlReader(AttributeReader):
    """Reads the attributes of one ad."""

    list_hint = '{ "A=1", "B=2" }'

    def __init__(self, ad: ClassAd) -> None:
        super().__init__()
        self._ad = ad
        self._values = values_of(ad)
        #: Attributes with texts without quotes.
        self._unquoted: list[str] = []

    def job(self) -> DescribedJob:
        job = super().job()
        if not self._unquoted:
            return job
        names = in_words(self._unquoted)
        sentence = f"Texts without double quotes are read as they stand, in {names}; put them in double quotes."
        return replace(job, warnings=(*job.warnings, sentence))

    def names(self) -> Sequence[str]:
        return self._ad.names

    def constant(self, name: str) -> Json:
        return self._constant(name, self._values[name])

    def _constant(self, name: str, value: Value) -> Json:
        if not _is_constant(value):
            problem = (
                f"The value of `{name}` is not a constant: a name in it is undefined (a text stands in double quotes), "
                "or it cannot be computed."
            )
            raise self.value_error(name, problem)
        return _as_json(value)

    def _constant_of_texts(self, name: str) -> Json:
        """Return the constant; a name that is undefined, or the attribute's own, stands for itself."""
        value = self._values[name]
        expression = self._ad.expression(name)
        if expression is None or _is_constant(value):
            return self._constant(name, value)
        node = expression.root
        if isinstance(node, ListExpression) and isinstance(value, tuple):
            read: Value = tuple([_word(each, name, of) for each, of in zip(value, node.items, strict=True)])
        else:
            read = _word(value, name, node)
        if _is_constant(read) and name not in self._unquoted:
            self._unquoted.append(name)
        return self._constant(name, read)

    def text(self, name: str) -> str:
        value = self._constant_of_texts(name)
        if isinstance(value, list) and value and BY_NAME[name.lower()].field in _FIRST_OF_LIST:
            if len(value) > 1:
                self._warnings.append(f"{name}: of the list only {shown(value[0])} is used; a job has one.")
            value = value[0]
        if not isinstance(value, str):
            raise self.value_error(name, f'`{name}` must be a string: {name} = "…";')
        return value

    def number(self, name: str) -> int:
        # DIRAC also accepts numbers in quotes.
        value = self.constant(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
            return int(value)
        if type(value) is not int:
            raise self.value_error(name, f"`{name}` must be an integer: {name} = 1;")
        return value

    def strings(self, name: str) -> list[str]:
        value = self._constant_of_texts(name)
        if isinstance(value, str):
            if ("," in value or ";" in value) and _is_list_of_files(name):
                self._warnings.append(
                    f'{name} is one name with a comma or semicolon in it; several names are {name} = {{ "a", "b" }};'
                )
            return [value] if value else []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.value_error(name, f'`{name}` must be a string or a list of strings: {name} = {{ "…", "…" }};')
        return value

    def name_list(self, name: str) -> list[str]:
        names = self.strings(name)
        return separated(names[0]) if not isinstance(self._values[name], tuple) and names else names

    def arguments(self, name: str) -> Json:
        value = self._constant_of_texts(name)
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


def _word(value: Value, name: str, node: Node) -> Value:
    """Return the value of a part of the attribute *name*, or the word itself, such as ``std.out``, if it has none."""
    if value is not UNDEFINED and not (value is ERROR and _is_named(node, name)):
        return value
    base = node.base if isinstance(node, Path) else node
    steps = node.steps if isinstance(node, Path) else ()
    if not isinstance(base, Attribute) or base.ad is not AdScope.NEAREST:
        return value
    words = [step for step in steps if isinstance(step, str)]
    return ".".join([base.name, *words]) if len(words) == len(steps) else value


def _is_named(node: Node, name: str) -> bool:
    return isinstance(node, Attribute) and node.name.lower() == name.lower()


def _is_list_of_files(name: str) -> bool:
    attribute = BY_NAME.get(name.lower())
    return attribute is not None and attribute.name in LISTS and attribute.field not in NAME_FIELDS


def _syntax_hint(text: str, at: int) -> str:
    """Return a hint, with a leading space, for an error of the syntax at this place; else an empty string."""
    if text[at : at + 1] == "#":
        return " A comment behind a value begins with //."
    if text[at : at + 1] == "=":
        return " A text with = in it stands in double quotes."
    assignments = list(_ASSIGNMENT.finditer(text, 0, at + 1))
    if not assignments:
        return ""
    begun = assignments[-1]
    if begun[1].lower() == "requirements":
        return f" {_REQUIREMENTS_HINT}{_instead(text, begun.end())}"
    if begun[1].lower() in _EXPRESSIONS:
        return f" {begun[1]} has no effect here; leave it out."
    first = text[begun.end() :].lstrip("{ \t\n")[:1]
    return f' A text stands in double quotes: {begun[1]} = "…";' if first.isalpha() or first in set("/$%~*") else ""


def _instead(text: str, begin: int) -> str:
    """Return which attributes require what the names in an expression mean, with a leading space."""
    end = text.find(";", begin)
    words = _WORD.findall(text, begin, len(text) if end < 0 else end)
    found = dict.fromkeys((word, _INSTEAD[word.lower()]) for word in words if word.lower() in _INSTEAD)
    return f" Write instead: {listed([f'{new} for {old}' for old, new in found])}." if found else ""
