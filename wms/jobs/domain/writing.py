"""A description written as a text: as JDL, or as JSON without what is the default."""

import json
import re
from collections.abc import Mapping
from typing import Final

from resources.domain.classad import ClassAdError
from wms.jobs.domain.description import FIELDS, as_json, parse
from wms.jobs.domain.jdl import Json, attribute_of, parse_jdl
from wms.wire.protocol import LFN_PREFIX

#: Given explicitly even if they are the default: the first thing that a reader looks for.
_ALWAYS: Final = frozenset({"executable", "cpu_time_s"})
_ORDER: Final = {name: number for number, name in enumerate((*FIELDS, "parameters"))}
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f", "\b": "\\b"}
_TO_ESCAPE: Final = re.compile(r'[\\"\x01-\x1f\x7f]')
#: In this order behind the values of a sequence.
_PARTS_OF_SEQUENCES: Final = {"start": "ParameterStart", "step": "ParameterStep", "factor": "ParameterFactor"}
#: Characters of a list in one line.
_LINE: Final = 80


def without_defaults(description: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of a description that are not the default, in the order in which pages show them.

    Unknown fields are kept, at the end.
    """
    defaults = as_json(parse({"executable": "x"}))
    return {
        name: value
        for name, value in sorted(description.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER)))
        if name in _ALWAYS or (value is not None and (name not in defaults or value != defaults[name]))
    }


def as_json_text(description: Mapping[str, Json], *, group: str | None = None) -> str:
    """Return the description as indented JSON, with the group to act in."""
    envelope = {} if group is None else {"group": group}
    return json.dumps({**without_defaults(description), **envelope}, indent=2, ensure_ascii=False)


def as_jdl(description: Mapping[str, Json], *, group: str | None = None) -> str | None:
    """Return the description as JDL, of which ``parse_jdl`` gives the same; None: JDL cannot express it.

    Args:
        description: valid, but for names of files in ``input_sandbox``; it may have ``parameters``.
        group: the group to act in, ``OwnerGroup``.
    """
    stated = without_defaults(description)
    lines = []
    for name, value in stated.items():
        attribute = attribute_of(name)
        if name == "parameters":
            lines += _parameters(value)
        elif attribute is None:
            return None
        else:
            lines.append((attribute, _written(name, value)))
    if group is not None:
        lines.append(("OwnerGroup", _value(group)))
    text = "".join(["[\n", *[f"  {attribute} = {value};\n" for attribute, value in lines], "]\n"])
    try:
        read = parse_jdl(text)
    except ClassAdError:
        return None
    return text if read.description == stated and read.group == group else None


def _parameters(value: Json) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        return [("Parameters", _value(value))]
    named = value if value and all(isinstance(form, Mapping) for form in value.values()) else {"": value}
    lines = []
    for sequence, form in named.items():
        suffix = f".{sequence}" if sequence else ""
        if isinstance(form, Mapping):
            lines.append((f"Parameters{suffix}", _value(form.get("values", form.get("count")))))
            lines += [
                (f"{name}{suffix}", _value(form[part])) for part, name in _PARTS_OF_SEQUENCES.items() if part in form
            ]
    return lines


def _written(field: str, value: Json) -> str:
    if field == "environment":
        return _environment(value)
    # Without LFN: the path would be another one in DIRAC.
    is_absolute = field == "output_path" and isinstance(value, str) and value.startswith("/")
    return _value(f"{LFN_PREFIX}{value}" if is_absolute else value)


def _environment(value: Json) -> str:
    # Blanks at the ends of values are kept in a record only.
    if not isinstance(value, Mapping) or any(str(content) != str(content).strip() for content in value.values()):
        return _value(value)
    return _value([f"{name}={content}" for name, content in value.items()])


def _value(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{_TO_ESCAPE.sub(_escaped, value)}"'
    if isinstance(value, Mapping):
        return f"[ {' '.join([f'{name} = {_value(each)};' for name, each in value.items()])} ]"
    if isinstance(value, list | tuple):
        elements = [_value(each) for each in value]
        line = f"{{ {', '.join(elements)} }}"
        return line if len(line) <= _LINE else f"{{\n    {f',{chr(10)}    '.join(elements)}\n  }}"
    return repr(value)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[0]) or f"\\{ord(match[0]):03o}"
