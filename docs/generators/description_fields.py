"""The tables of docs/descriptions.md: the fields of a job description, with their types, bounds and defaults."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from rest_framework import serializers

from docs.generators.markdown import table
from wms.client.commands.description_options import OPTIONS
from wms.jobs.api.bodies import SubmissionBody
from wms.jobs.domain.description import JobDescription
from wms.jobs.domain.fields import MAX_NAME
from wms.jobs.domain.jdl_attributes import ALL, Kind
from wms.wire.amounts import AMOUNT

#: {heading: fields}.
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "The program": (
        *("executable", "arguments", "environment", "std_output", "std_error", "container", "software"),
        *("job_name", "job_group", "job_type", "setup"),
    ),
    "What it needs": ("cpu_time_s", *AMOUNT, "priority", "stalled_s", "stalled_cpu_fraction"),
    "Where it may run": (
        *("sites", "banned_sites", "grid_ces", "platforms", "tags", "requirements", "submit_pools", "pilot_types"),
        "grid_middlewares",
    ),
    "Files": (
        *("input_sandbox", "output_sandbox", "input_data", "input_data_policy", "output_data", "output_se"),
        "output_path",
        "overwrite",
    ),
    "Many jobs": ("parameters",),
}
_DEFAULTS: Final = {field.name: field.default for field in fields(JobDescription)}
#: {field: option of ``wms submit``}.
_OPTIONS: Final = {each.field: option for option, each in OPTIONS.items()} | {
    "environment": "--environment",
    "parameters": "--count",
}
_ADDRESS: Final = re.compile(r"[a-z]+://…|/cvmfs/\S+sif|LFN:/vo/…|sha256:…")


def sections() -> str:
    """Return a table of fields for each section."""
    described = SubmissionBody().fields
    head = ["field", "in JDL and CFG", "option of `wms submit`", "type", "unit", "default", "meaning"]
    parts = []
    for heading, names in SECTIONS.items():
        rows = [[f"`{name}`", *_cells(name, described[name])] for name in names]
        parts.append(f"### {heading}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _cells(name: str, field: "serializers.Field[Any, Any, Any, Any]") -> list[str]:
    option = f"`{_OPTIONS[name]}`" if name in _OPTIONS else ""
    return [_attributes(name), option, _type(field), _unit(name), _default(name), _meaning(field)]


def _attributes(name: str) -> str:
    """Return the names of the attributes that set a field; the first is the usual one."""
    if name == "parameters":
        names = [each.name for each in ALL if each.kind is Kind.SEQUENCE]
    else:
        apart = {Kind.SEQUENCE, Kind.IGNORED, Kind.REFUSED}
        names = [each.name for each in ALL if each.field == name and each.kind not in apart and not each.yields_to]
    return ", ".join(f"`{each}`" for each in names)


def _type(field: "serializers.Field[Any, Any, Any, Any]") -> str:
    if isinstance(field, serializers.ChoiceField):
        words = " or ".join(f"`{choice}`" for choice in field.choices)
    elif isinstance(field, serializers.IntegerField):
        words = f"whole number, {field.min_value} to {field.max_value}"
    elif isinstance(field, serializers.FloatField):
        words = f"number, {field.min_value:g} to {field.max_value:g}"
    elif isinstance(field, serializers.BooleanField):
        words = "true or false"
    elif isinstance(field, serializers.ListField):
        words = "list of texts"
    elif isinstance(field, serializers.DictField):
        words = "object"
    else:
        most = getattr(field, "max_length", MAX_NAME)
        words = "text" if most == MAX_NAME else f"text, at most {most} characters"
    return f"{words}, or null" if field.allow_null else words


def _unit(name: str) -> str:
    if name in AMOUNT:
        return AMOUNT[name].unit
    return "s" if name.endswith("_s") else ""


def _default(name: str) -> str:
    if name == "executable":
        return "required"
    value = _DEFAULTS.get(name)
    if value == () or name == "parameters":
        return "none"
    if value is None or isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return f"`{value}`" if value != "" else "empty"


def _meaning(field: "serializers.Field[Any, Any, Any, Any]") -> str:
    text = str(field.help_text).replace("`", "")
    return _ADDRESS.sub(lambda found: f"`{found[0]}`", text)
