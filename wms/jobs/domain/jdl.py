"""Parser of JDL, DIRAC's job description in ClassAd syntax, into the JSON description of the REST interface.

Attribute names are DIRAC's, in any letter case. A value may be any constant expression, also over other attributes
(``CPUTime = 3600 * 24``). Only the form is checked here; ``description.parse`` checks the values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from resources.domain.classad import ERROR, UNDEFINED, ClassAd, ClassAdError, Value, parse_classad, values_of
from resources.domain.files import without_prefix
from wms.kernel.amounts import AMOUNTS
from wms.kernel.names import did_you_mean, separated

Json = object

#: {attribute as DIRAC spells it: field of the description}.
TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Executable": "executable",
        "JobName": "job_name",
        "JobGroup": "job_group",
        "JobType": "job_type",
        "Setup": "setup",
        "DIRACSetup": "setup",
        "StdOutput": "std_output",
        "StdError": "std_error",
        "Container": "container",
        "InputDataPolicy": "input_data_policy",
        "OutputSE": "output_se",
        "OutputPath": "output_path",
    }
)
NUMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CPUTime": "cpu_time_s",
        "Priority": "priority",
        "StalledTime": "stalled_s",
        **{attribute: amount.name for amount in AMOUNTS for attribute in amount.jdl},
    }
)
#: Numbers that may have decimals.
FRACTIONS: Final[Mapping[str, str]] = MappingProxyType({"StalledCPUFraction": "stalled_cpu_fraction"})
#: Lists; a single value is a list of one.
LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Site": "sites",
        "Sites": "sites",
        "BannedSites": "banned_sites",
        "BannedSite": "banned_sites",
        "GridCE": "grid_ces",
        "GridCEs": "grid_ces",
        "Platform": "platforms",
        "Platforms": "platforms",
        "PilotTypes": "pilot_types",
        "PilotType": "pilot_types",
        "SubmitPools": "submit_pools",
        "SubmitPool": "submit_pools",
        "GridMiddlewares": "grid_middlewares",
        "GridMiddleware": "grid_middlewares",
        "Tags": "tags",
        "Tag": "tags",
        "Software": "software",
        "InputSandbox": "input_sandbox",
        "InputData": "input_data",
        "OutputSandbox": "output_sandbox",
        "OutputData": "output_data",
    }
)
#: Fields with lists of names; as in DIRAC, one text may contain several names with commas.
NAME_FIELDS: Final = frozenset(
    {"sites", "banned_sites", "grid_ces", "platforms", "pilot_types", "submit_pools", "grid_middlewares", "tags"}
)
#: Attributes for parametric jobs; a dot and the name of a sequence may follow.
SEQUENCES: Final[Mapping[str, str]] = MappingProxyType(
    {"Parameters": "", "ParameterStart": "start", "ParameterStep": "step", "ParameterFactor": "factor"}
)
OTHERS: Final = ("Arguments", "Requirements", "Environment", "OwnerGroup")
ATTRIBUTES: Final = (*TEXTS, *NUMBERS, *FRACTIONS, *LISTS, *SEQUENCES, *OTHERS)

_SPELLING: Final = {name.lower(): name for name in ATTRIBUTES}
_FIELD_OF: Final = {
    **TEXTS,
    **NUMBERS,
    **FRACTIONS,
    **LISTS,
    "Arguments": "arguments",
    "Requirements": "requirements",
    "Environment": "environment",
}
#: Names of fields in other systems and in DIRAC's parameters of resources, in lower case.
_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "maxcputime": "CPUTime",
        "cpu": "CPUTime",
        "cpulimit": "CPUTime",
        "ram": "Memory",
        "minram": "Memory",
        "maxram": "Memory",
        "cores": "NumberOfProcessors",
        "numberofcores": "NumberOfProcessors",
        "maxwalltime": "WallTime",
        "wallclocktime": "WallTime",
    }
)
_ATTRIBUTE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{field: name for name, field in reversed(_FIELD_OF.items())},
        **{name.lower(): name for name in _FIELD_OF},
        **_ALIASES,
    }
)
_REQUIREMENTS_HINT: Final = (
    'Requirements must be a record of constants, such as [ SoftwareTag = { "v1", "v2" }; Memory = 4000; ]; '
    "an expression is not accepted."
)


def field_hint(name: str) -> str:
    """Return a hint, with a leading space, if a required name is a field of the description; else an empty string."""
    attribute = _ATTRIBUTE_OF.get(name.strip().lower())
    if attribute is None:
        return ""
    field = _FIELD_OF[attribute]
    return f" It is a field of the description: give {field} beside requirements ({attribute} in JDL and CFG)."


def attribute_of(field: str) -> str | None:
    """Return the attribute that sets a field of the description; None: there is none."""
    return _ATTRIBUTE_OF[field] if field in _FIELD_OF.values() else None


class InvalidJdlError(ClassAdError):
    """The JDL cannot be parsed, or is not a job description; ``line`` and ``column`` give the place."""

    code = "invalid_jdl"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedJob:
    """The JSON description from a text, and the group to act in (``OwnerGroup``), which is not part of it."""

    description: dict[str, Json]
    group: str | None


def parse_jdl(text: str) -> DescribedJob:
    """Return the job description in *text*, with the JSON names of the REST interface, not validated yet.

    Args:
        text: ``[ Executable = "…"; … ]``, with or without the brackets; at most 64 kB.

    Raises:
        InvalidJdlError: with line and column.
    """
    try:
        return _JdlReader(parse_classad(text, dotted_names=True)).job()
    except InvalidJdlError:
        raise
    except ClassAdError as error:
        raise InvalidJdlError(error.problem, text=text, at=error.at) from error


class AttributeReader(ABC):
    """Turns attributes of either syntax into fields."""

    def __init__(self) -> None:
        self._description: dict[str, Json] = {}
        self._given_by: dict[str, str] = {}
        self._sequences: dict[str, dict[str, str]] = {}
        self._group: str | None = None

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the attributes as written, each once, in their order."""

    @abstractmethod
    def constant(self, name: str) -> Json:
        """Return the value of the attribute, of any type; raise the error of ``value_error``."""

    @abstractmethod
    def text(self, name: str) -> str:
        """Return the value, a text."""

    @abstractmethod
    def number(self, name: str) -> int:
        """Return the value, an integer."""

    @abstractmethod
    def strings(self, name: str) -> list[str]:
        """Return the value, a list of texts or a single text."""

    @abstractmethod
    def name_list(self, name: str) -> list[str]:
        """Return the value, a list of names or a text of several."""

    @abstractmethod
    def arguments(self, name: str) -> Json:
        """Return the value, a text or a list of words."""

    @abstractmethod
    def requirements(self, name: str) -> Json:
        """Return the value, a record of constants."""

    @abstractmethod
    def record(self, name: str) -> dict[str, Json] | None:
        """Return the value if it is a record, else None."""

    @abstractmethod
    def name_error(self, name: str, problem: str) -> ClassAdError:
        """Return an error at the attribute's name."""

    @abstractmethod
    def value_error(self, name: str, problem: str) -> ClassAdError:
        """Return an error at the attribute's value."""

    #: A list in this syntax, for hints.
    list_hint: ClassVar[str]

    def job(self) -> DescribedJob:
        """Return the description from all attributes."""
        for name in self.names():
            self._read(name)
        self._add_parameters()
        return DescribedJob(description=self._description, group=self._group)

    def _read(self, name: str) -> None:
        first, _, sequence = name.partition(".")
        attribute = _SPELLING.get(first.lower())
        if attribute is None or (sequence and attribute not in SEQUENCES):
            raise self.name_error(name, f"There is no attribute `{name[:64]}`.{did_you_mean(name[:64], ATTRIBUTES)}")
        if attribute in SEQUENCES:
            self._sequences.setdefault(sequence.lower(), {})[SEQUENCES[attribute]] = name
            return
        if attribute == "OwnerGroup":
            self._group = self.text(name)
            return
        field = _FIELD_OF[attribute]
        other = self._given_by.setdefault(field, name)
        if other != name:
            raise self.name_error(name, f"`{name}` and `{other}` mean the same; keep one of them.")
        self._description[field] = self._field(attribute, name)

    def _field(self, attribute: str, name: str) -> Json:
        if attribute in TEXTS:
            return self.text(name)
        if attribute in NUMBERS:
            return self.number(name)
        if attribute in FRACTIONS:
            return self._fraction(name)
        special: Mapping[str, Callable[[str], Json]] = {
            "Arguments": self.arguments,
            "Requirements": self.requirements,
            "Environment": self._environment,
            "InputData": self._input_data,
        }
        if LISTS.get(attribute) in NAME_FIELDS:
            return self.name_list(name)
        return special.get(attribute, self.strings)(name)

    def _fraction(self, name: str) -> float:
        value = self.constant(name)
        try:
            return float(value) if isinstance(value, int | float | str) else float("nan")
        except ValueError:
            raise self.value_error(name, f"`{name}` must be a number: {name} = 0.05") from None

    def _input_data(self, name: str) -> list[str]:
        return [without_prefix(lfn) for lfn in self.strings(name)]

    def _environment(self, name: str) -> Json:
        value = self.record(name)
        if value is not None:
            return {variable: str(content) if type(content) is int else content for variable, content in value.items()}
        environment: dict[str, str] = {}
        for assignment in self.strings(name):
            variable, separator, content = assignment.partition("=")
            if not separator or variable in environment:
                hint = f"`{name}` must be a list of assignments, each variable once: {self.list_hint}"
                raise self.value_error(name, f"{hint}, or a record.")
            environment[variable] = content
        return environment

    def _add_parameters(self) -> None:
        """Join ``Parameters``, ``ParameterStart`` … into the field ``parameters``."""
        forms: dict[str, dict[str, Json]] = {}
        for parts in self._sequences.values():
            if "" not in parts:
                name = next(iter(parts.values()))
                _, dot, sequence = name.partition(".")
                raise self.name_error(name, f"`{name}` requires `Parameters{dot}{sequence}`.")
            form = {part: self.constant(name) for part, name in parts.items()}
            values = form.pop("")
            forms[parts[""].partition(".")[2]] = {"values" if isinstance(values, list) else "count": values, **form}
        if len(forms) > 1 and "" in forms:
            problem = "Either one sequence without a name or named ones: write `Parameters.name` for this one too."
            raise self.name_error(self._sequences[""][""], problem)
        if forms:
            self._description["parameters"] = forms.get("", forms)


class _JdlReader(AttributeReader):
    """Reads the attributes of one ad."""

    list_hint = '{ "A=1", "B=2" }'

    def __init__(self, ad: ClassAd) -> None:
        super().__init__()
        self._ad = ad
        self._values = values_of(ad)

    def names(self) -> Sequence[str]:
        return self._ad.names

    def constant(self, name: str) -> Json:
        value = self._values[name]
        if not _is_constant(value):
            problem = f"The value of `{name}` is not a constant: a name in it is undefined, or it cannot be computed."
            raise self.value_error(name, problem)
        return _as_json(value)

    def text(self, name: str) -> str:
        value = self.constant(name)
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
        value = self.constant(name)
        if isinstance(value, str):
            return [value] if value else []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.value_error(name, f'`{name}` must be a string or a list of strings: {name} = {{ "…", "…" }};')
        return value

    def name_list(self, name: str) -> list[str]:
        names = self.strings(name)
        return separated(names[0]) if isinstance(self._values[name], str) and names else names

    def arguments(self, name: str) -> Json:
        value = self.constant(name)
        return str(value) if type(value) in {int, float} else value

    def requirements(self, name: str) -> Json:
        if not isinstance(self._values[name], Mapping):
            raise self.value_error(name, _REQUIREMENTS_HINT)
        return self.constant(name)

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
