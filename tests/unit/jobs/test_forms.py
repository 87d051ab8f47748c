"""JSON, JDL and CFG are three notations of the same job description, for all of its fields."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.requirements import canonical
from wms.jobs.domain import parametric
from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.description import FIELDS, InvalidDescriptionError
from wms.jobs.domain.jdl import FRACTIONS, LISTS, NUMBERS, TEXTS, parse_jdl
from wms.wire.jdl_texts import trimmed

#: Every attribute that means the field.
ATTRIBUTES: Final[Mapping[str, list[str]]] = {
    field: [name for names in (TEXTS, NUMBERS, FRACTIONS, LISTS) for name, of in names.items() if of == field]
    or [field.title()]
    for field in FIELDS
}
RESERVED: Final = frozenset({"true", "false", "error", "undefined", "is", "isnt"})


# ---- Written ---------------------------------------------------------------------------------------------------------


def in_jdl(value: object) -> str:
    match value:
        case list():
            return "{ " + ", ".join(map(in_jdl, value)) + " }"
        case dict():
            return "[ " + "; ".join(f"{name} = {in_jdl(item)}" for name, item in value.items()) + " ]"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'
        case _:
            return repr(value)


def in_cfg(value: object, *, quoted: bool) -> str:
    match value:
        case list():
            return ", ".join(in_cfg(item, quoted=quoted) for item in value)
        case bool():
            return str(value).lower()
        case str() if quoted or not re.fullmatch(r"[A-Za-z/](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?", value):
            return '"' + value.replace('"', '""') + '"'
        case str() if value.lower() in RESERVED:
            return f'"{value}"'
        case _:
            return str(value)


def as_jdl(description: Mapping[str, object], name_of: Callable[[str], str]) -> str:
    lines = [f"{name_of(field)} = {in_jdl(value)};" for field, value in description.items() if field != "parameters"]
    return "\n".join([*lines, *_parameters(description, in_jdl, ";")])


def as_cfg(description: Mapping[str, object], name_of: Callable[[str], str], *, quoted: bool) -> str:
    def write(value: object) -> str:
        return in_cfg(value, quoted=quoted)

    lines = []
    for field, value in description.items():
        if isinstance(value, dict) and field != "parameters":
            inner = [f"  {name} = {write(item)}" for name, item in value.items()]
            lines += [f"{name_of(field)}", "{", *inner, "}"]
        elif field != "parameters":
            lines.append(f"{name_of(field)} = {write(value)}")
    return "\n".join([*lines, *_parameters(description, write, "")])


def _parameters(description: Mapping[str, object], write: Callable[[object], str], end: str) -> list[str]:
    parameters = description.get("parameters", {})
    assert isinstance(parameters, dict)
    lines = []
    for name, sequence in parameters.items():
        for part, value in sequence.items():
            attribute = "Parameters" if part in {"values", "count"} else f"Parameter{part.title()}"
            lines.append(f"{attribute}.{name} = {write(value)}{end}")
    return lines


# ---- Drawn -----------------------------------------------------------------------------------------------------------

#: What means something in one syntax or the other, and what stands beyond ASCII.
texts = st.text(alphabet="abcXYZ019_-./ ,;:#={}[]()<>&|'\"\\\t%é€", max_size=12)
plain = st.from_regex(r"[A-Za-z][A-Za-z0-9_.]{0,8}", fullmatch=True)
#: Texts as JDL and CFG read names: without blanks at the ends, and an empty one is as if it were absent.
trimmed_texts = texts.map(trimmed).filter(bool)
lists = st.lists(plain, max_size=4) | st.lists(trimmed_texts, max_size=4)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name.lower() not in RESERVED)
scalars = (
    texts | plain | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
)
sequences = st.fixed_dictionaries({"values": st.lists(plain | st.integers(0, 99), min_size=2, max_size=2)}) | (
    st.fixed_dictionaries({"count": st.just(2)}, optional={"start": st.integers(0, 9), "step": st.floats(0, 9)})
)
VALUES: Final[Mapping[str, st.SearchStrategy[object]]] = {
    **dict.fromkeys(TEXTS.values(), trimmed_texts | plain),
    **dict.fromkeys(NUMBERS.values(), st.integers(0, 2000)),
    **dict.fromkeys(FRACTIONS.values(), st.floats(0, 1.5)),
    **dict.fromkeys(LISTS.values(), lists),
    # What takes only few values would nearly always be refused.
    "executable": plain,
    "output_se": plain,
    "priority": st.integers(0, 11),
    "processors": st.integers(1, 2000),
    "cpu_time_s": st.integers(1, 10**6),
    "pilot_types": st.lists(st.sampled_from(["private", "generic", "Private", "pilot"]), max_size=2),
    "input_data_policy": st.sampled_from(["download", "in_place", "nearby"]),
    "overwrite": st.booleans(),
    "output_path": plain.map("/lhcb/{}".format) | trimmed_texts,
    "input_sandbox": st.just(["sha256:" + "0" * 64]) | lists,
    "arguments": texts,
    "environment": st.dictionaries(names, texts, max_size=3),
    "requirements": st.dictionaries(names, scalars | st.lists(scalars, min_size=1, max_size=3), max_size=3),
    "parameters": st.dictionaries(names, sequences, min_size=1, max_size=2),
}


def differ_in_more_than_case(description: Mapping[str, object]) -> bool:
    """Return whether the names of each record differ when case is ignored, as JDL and CFG do."""
    records = [value for value in description.values() if isinstance(value, dict)]
    return all(len({name.lower() for name in record}) == len(record) for record in records)


#: At most eight fields: with all of them, one would always be wrong.
descriptions = (
    st.lists(st.sampled_from(sorted(VALUES)), max_size=8, unique=True)
    .flatmap(lambda fields: st.fixed_dictionaries({"executable": plain, **{field: VALUES[field] for field in fields}}))
    .filter(differ_in_more_than_case)
)


def jobs(description: Mapping[str, object]) -> object:
    """Return the described jobs, or the error of each field.

    A requirement that is a list of one value becomes that value: both name the same pool, and CFG lacks the list.
    """
    try:
        found = parametric.parse_all(description)
    except InvalidDescriptionError as error:
        return sorted(error.errors)
    return [(replace(job, requirements=()), _required(dict(job.requirements))) for job in found]


def _required(requirements: Mapping[str, object]) -> str:
    # As a text: to Python 1, 1.0 and True are equal.
    return repr(canonical(requirements))


def test_every_field_is_drawn() -> None:
    assert set(VALUES) == {*FIELDS, "parameters"}


@given(descriptions, st.randoms(use_true_random=False), st.booleans())
def test_json_jdl_and_cfg_describe_the_same_job(description: dict[str, object], random: object, quoted: bool) -> None:
    def name_of(field: str) -> str:
        name: str = random.choice(ATTRIBUTES[field])  # type: ignore[attr-defined]
        return random.choice([name, name.lower(), name.upper()])  # type: ignore[attr-defined, no-any-return]

    expected = jobs(description)
    assert jobs(parse_jdl(as_jdl(description, name_of)).description) == expected
    assert jobs(parse_cfg(as_cfg(description, name_of, quoted=quoted)).description) == expected


@pytest.mark.parametrize("field", sorted(VALUES))
def test_each_field_is_equal_in_json_jdl_and_cfg(field: str) -> None:
    """So that a field that is wrongly drawn, and refused everywhere, does not hide here."""
    right: dict[str, object] = {
        "priority": 3, "stalled_s": 600, "stalled_cpu_fraction": 0.25, "pilot_types": ["private"],
        "input_data": ["/lhcb/a"], "output_path": "/lhcb/x", "overwrite": True,
        "input_sandbox": ["sha256:" + "0" * 64], "input_data_policy": "in_place", "executable": "b c",
        "environment": {"A": 'x, "y"', "B": "1"}, "requirements": {"Memory": 4000, "Tag": ["a, b", '"c"', 1.5, True]},
        "parameters": {"a": {"values": ["x, y", 3]}, "b": {"count": 2, "start": 5}},
    }  # fmt: skip
    example = "a" if field in {*TEXTS.values(), "arguments"} else 7 if field in NUMBERS.values() else ["a", "b, c"]
    description = {"executable": "a", field: right.get(field, example)}
    expected = jobs(description)
    assert len(expected) == (2 if field == "parameters" else 1)  # type: ignore[arg-type]
    assert isinstance(expected, list)
    assert not isinstance(expected[0], str)
    assert jobs(parse_jdl(as_jdl(description, lambda name: ATTRIBUTES[name][0])).description) == expected
    assert jobs(parse_cfg(as_cfg(description, lambda name: ATTRIBUTES[name][0], quoted=False)).description) == expected
