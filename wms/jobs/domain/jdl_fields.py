"""The attributes of JDL and CFG that are read as fields of a description, by the form of their values."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.jdl_attributes import ALL, Kind
from wms.jobs.domain.placeholders import literal
from wms.kernel.names import did_you_mean
from wms.wire.protocol import DOWNLOAD, IN_PLACE


def fields_by_name(kind: Kind) -> Mapping[str, str]:
    """Return {name: field} of the attributes of a kind, in their order."""
    return MappingProxyType({attribute.name: attribute.field for attribute in ALL if attribute.kind is kind})


#: {attribute: field of the description}.
TEXTS: Final = fields_by_name(Kind.TEXT)
NUMBERS: Final = fields_by_name(Kind.NUMBER)
FRACTIONS: Final = fields_by_name(Kind.FRACTION)
LISTS: Final = fields_by_name(Kind.LIST)
#: {attribute: part of a sequence}.
SEQUENCES: Final = fields_by_name(Kind.SEQUENCE)
#: {attribute that is read: its field}.
FIELD_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        attribute.name: attribute.field
        for attribute in ALL
        if attribute.field and attribute.kind not in {Kind.SEQUENCE, Kind.IGNORED, Kind.REFUSED}
    }
)
#: Those that are read.
ATTRIBUTES: Final = tuple([attribute.name for attribute in ALL if attribute.kind not in {Kind.IGNORED, Kind.REFUSED}])
#: Fields with lists of names; as in DIRAC, one text may contain several names with commas.
NAME_FIELDS: Final = frozenset(
    {"sites", "banned_sites", "grid_ces", "platforms", "pilot_types", "submit_pools", "grid_middlewares", "tags"}
)

#: Last words of the names of DIRAC's policies for input data, in lower case.
POLICIES: Final[Mapping[str, str]] = {
    "downloadinputdata": DOWNLOAD,
    "inputdatabyprotocol": IN_PLACE,
    "protocol": IN_PLACE,
}
TYPES_OF_GLITE: Final = frozenset(
    {"normal", "parametric", "interactive", "mpi", "mpich", "checkpointable", "partitionable"}
)
TRUTHS: Final[Mapping[str, bool]] = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

#: Attributes whose empty value is a value; of others it is none, as in DIRAC.
MAY_BE_EMPTY: Final = frozenset({"executable", "arguments"})
#: Attributes whose values do not depend on letter case.
WITHOUT_CASE: Final = frozenset({"type", "wholenode", "wholenodes", "disabledatascheduling", "overwrite"})
#: A number in quotes.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_REAL: Final = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?")

#: In DIRAC's ExecutionEnvironment, characters by their UTF-8 codes.
_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})++")
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
#: {unknown name in lower case: attribute that is meant, though others are spelt more alike}.
_MEANT_BY_UNKNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_ALIASES,
        **dict.fromkeys(("inputfile", "inputfiles", "inputfilelist"), "InputSandbox"),
        **dict.fromkeys(("outputfile", "outputfiles", "outputfilelist"), "OutputSandbox"),
        **dict.fromkeys(("selist", "outputselist", "storageelement"), "OutputSE"),
        **dict.fromkeys(("numberofjobs", "numjobs", "njobs"), "Parameters"),
        **dict.fromkeys(("requiredtag", "requiredtags"), "Tags"),
        "args": "Arguments",
    }
)
#: {field, or name of an attribute in lower case: attribute}.
_MEANT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{field: name for name, field in reversed(list(FIELD_OF.items()))},
        **{name.lower(): name for name in FIELD_OF},
        **_ALIASES,
    }
)


def field_hint(name: str) -> str:
    """Return a hint, with a leading space, if a required name is a field of the description; else an empty string."""
    attribute = _MEANT_BY.get(name.strip().lower())
    if attribute is None:
        return ""
    field = FIELD_OF[attribute]
    return f" It is a field of the description: give {field} beside requirements ({attribute} in JDL and CFG)."


def attribute_of(field: str) -> str | None:
    """Return the attribute that sets a field of the description; None: there is none."""
    return _MEANT_BY[field] if field in FIELD_OF.values() else None


def number_in(value: object) -> int | float | None:
    """Return a number, which DIRAC also accepts in quotes; None: it is none."""
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _REAL.fullmatch(text) else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def whole_number_in(value: object) -> int | None:
    """Return a number that is an integer, also one with decimals such as ``3600.0``; None: it is none."""
    number = number_in(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else None
    return number


def decoded_value(value: object, *, parametric: bool) -> object:
    """Return a value of ExecutionEnvironment without percent-encoding; its percent signs stand for themselves."""
    if not isinstance(value, str):
        return value
    if parametric:
        return _decoded(value, percent="%%")
    return "%j".join([literal(_decoded(part, percent="%")) for part in value.split("%j")])


def _decoded(text: str, *, percent: str) -> str:
    """Return the text with its percent-encoded characters; those that are no UTF-8 stay."""

    def characters(match: re.Match[str]) -> str:
        try:
            return bytes.fromhex(match[0].replace("%", "")).decode().replace("%", percent)
        except UnicodeDecodeError:
            return match[0]

    return _ENCODED.sub(characters, text)


def remedy_of_unknown(name: str) -> str:
    """Return a hint on an unknown attribute, with a leading space."""
    if meant := _MEANT_BY_UNKNOWN.get(name.lower()):
        return f' Did you mean "{meant}"?'
    if nearest := did_you_mean(name, ATTRIBUTES, cutoff=0.7):
        return nearest
    # Of those without effect only one that is surely meant.
    others = {attribute.name.lower(): attribute.name for attribute in ALL}
    if close := get_close_matches(name.lower(), others, n=1, cutoff=0.85):
        return f' Did you mean "{others[close[0]]}"?'
    return (
        " Leave it out; if it is meant for the program, hand it over by Arguments or Environment. (docs/jdl.md lists "
        "the attributes.)"
    )


#: Tags that DIRAC makes of amounts.
_TAG_OF_PROCESSORS: Final = re.compile(r"([0-9]{1,6})Processors|MultiProcessor", re.IGNORECASE)
_TAG_OF_MEMORY: Final = re.compile(r"([0-9]{1,6})GB(?:Memory)?", re.IGNORECASE)


def amount_meant_by(tag: str) -> tuple[str, int] | None:
    """Return the attribute and the amount that DIRAC means by a tag; None: none."""
    if processors := _TAG_OF_PROCESSORS.fullmatch(tag):
        return "NumberOfProcessors", int(processors[1] or 2)
    memory = _TAG_OF_MEMORY.fullmatch(tag)
    return ("Memory", int(memory[1]) * 1000) if memory else None
