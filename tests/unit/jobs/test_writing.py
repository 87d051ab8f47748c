"""Descriptions written as JDL and JSON, of which the same descriptions are read."""

import json

from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.description import MAX_PRIORITY, InvalidDescriptionError, as_json, parse
from wms.jobs.domain.jdl import parse_jdl
from wms.jobs.domain.parametric import parse_all
from wms.jobs.domain.writing import as_jdl, as_json_text, without_defaults

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
WORDS = st.text(st.sampled_from('ab "\\%é,;{}'), min_size=1, max_size=8).filter(lambda word: word == word.strip())
NAMES = st.lists(WORDS, unique=True, max_size=3)
DESCRIPTIONS = st.fixed_dictionaries(
    {"executable": WORDS},
    optional={
        "arguments": TEXTS | st.lists(TEXTS, max_size=3),
        "job_name": WORDS,
        "cpu_time_s": st.integers(1, 10**6),
        "priority": st.integers(0, MAX_PRIORITY),
        "memory_mb": st.integers(0, 10**6),
        "sites": NAMES,
        "tags": NAMES,
        "environment": st.dictionaries(st.from_regex(r"[A-Za-z_]\w{0,5}", fullmatch=True), TEXTS, max_size=3),
        "requirements": st.dictionaries(
            st.sampled_from(["Memory", "SoftwareTag", "GLIBC"]),
            st.integers(-5, 5) | st.booleans() | WORDS | st.lists(WORDS, min_size=1, max_size=3),
            max_size=3,
        ),
        "stalled_cpu_fraction": st.floats(0.001, 1.0),
        "input_sandbox": st.just(["run.sh"]),
    },
)
PARAMETERS = st.sampled_from(
    [
        {},
        {"values": ["a", "b c", 'd "e"']},
        {"values": [1, 2.5, 3]},
        {"count": 3, "start": 5, "step": 2},
        {"seed": {"count": 2}, "tune": {"values": ["x", "y"]}},
    ]
)


@given(DESCRIPTIONS, PARAMETERS)
def test_a_description_written_as_jdl_is_read_as_the_same(
    description: dict[str, object], parameters: dict[str, object]
) -> None:
    described = {**description, **({"parameters": parameters} if parameters else {})}
    try:
        parse({**description, "input_sandbox": []})
    except InvalidDescriptionError:
        return
    text = as_jdl(described, group="lhcb_user")
    assert text is not None
    job = parse_jdl(text)
    assert job.group == "lhcb_user"
    assert job.description == without_defaults(described)


def test_jdl_is_written_as_people_write_it() -> None:
    described = {
        "executable": "./run.sh", "arguments": 'say "hi"', "cpu_time_s": 86400, "priority": 1, "sites": ["A", "B"],
        "environment": {"RUN": "7"}, "parameters": {"count": 3, "start": 1}, "gpus": 0, "setup": None,
    }  # fmt: skip
    assert as_jdl(described) == (
        "[\n"
        '  Executable = "./run.sh";\n'
        '  Arguments = "say \\"hi\\"";\n'
        "  CPUTime = 86400;\n"
        '  Environment = { "RUN=7" };\n'
        '  Sites = { "A", "B" };\n'
        "  Parameters = 3;\n"
        "  ParameterStart = 1;\n"
        "]\n"
    )


def test_fields_without_jdl_are_not_written() -> None:
    assert as_jdl({"executable": "x", "requirements": {"two words": 1}}) is None
    assert as_jdl({"executable": "x", "unknown": 1}) is None


@given(DESCRIPTIONS)
def test_omitted_jdl_fields_have_defaults(description: dict[str, object]) -> None:
    described = {**description, "input_sandbox": []}
    try:
        parsed = parse(described)
    except InvalidDescriptionError:
        return
    assert parse(without_defaults(as_json(parsed))) == parsed
    assert parse_all(json.loads(as_json_text(described))) == [parsed]
