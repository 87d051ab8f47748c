"""Parametric descriptions: the number of their jobs, and the values in each."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.description import InvalidDescriptionError, described, parse
from wms.jobs.domain.parametric import TEMPLATES, expand, parse_all
from wms.jobs.domain.placeholders import (
    EARLY,
    LATE,
    NUMBERS,
    finished_early,
    id_warning,
    substitute_job_id,
    unknown_placeholders,
    with_literal_ids,
)
from wms.jobs.domain.sequences import MAX_PARAMETRIC_JOBS

LISTS = (
    *("sites", "banned_sites", "grid_ces", "grid_middlewares", "platforms", "tags", "software", "pilot_types"),
    *("submit_pools", "input_data", "input_sandbox", "output_sandbox", "output_data"),
)


def arguments_of(text: str, parameters: object) -> list[object]:
    return [job["arguments"] for job in expand({"executable": "x", "arguments": text, "parameters": parameters})]


def refusal(data: Mapping[str, object]) -> dict[str, list[str]]:
    with pytest.raises(InvalidDescriptionError) as caught:
        parse_all(data)
    json.dumps(caught.value.errors, ensure_ascii=False).encode()
    return caught.value.errors


def test_a_description_without_parameters_is_not_changed() -> None:
    data = {"executable": "x", "arguments": "100%% %s %n %j %(a)s", "job_name": "50%"}
    assert expand(data) == [data]
    assert expand({**data, "parameters": None}) == [data]


@pytest.mark.parametrize(
    ("parameters", "values"),
    [
        ({"values": ["a", 2, 2.5]}, ["a", "2", "2.5"]),
        ({"count": 3}, ["0", "1", "2"]),
        ({"count": 1}, ["0"]),
        ({"count": 3, "start": 1, "step": 2}, ["1", "3", "5"]),
        ({"count": 4, "start": 1, "step": 1, "factor": 2}, ["1", "3", "7", "15"]),
        ({"count": 3, "start": 5, "step": 0}, ["5", "5", "5"]),
        ({"count": 3, "step": -0.5}, ["0.0", "-0.5", "-1.0"]),
        ({"count": 3, "start": 1, "step": 0, "factor": 0.5}, ["1.0", "0.5", "0.25"]),
    ],
)
def test_each_next_value_is_the_one_before_times_factor_plus_step(parameters: object, values: list[str]) -> None:
    assert arguments_of("%s", parameters) == values


def test_named_sequences_advance_together() -> None:
    parameters = {"energy": {"values": ["7TeV", "8TeV"]}, "seed": {"count": 2, "start": 100}}
    assert arguments_of("-e %(energy)s -s %(seed)s", parameters) == ["-e 7TeV -s 100", "-e 8TeV -s 101"]


def test_the_number_has_as_many_digits_as_the_largest_number() -> None:
    assert arguments_of("%n", {"count": 10}) == [str(number) for number in range(10)]
    assert arguments_of("%n", {"count": 11})[:2] == ["00", "01"]


def test_every_text_is_a_template_and_only_requirements_and_names_of_variables_are_not() -> None:
    texts = {name: "x%s" for name in TEMPLATES if name not in NUMBERS}
    lists = {name: ["x%s", "y"] for name in LISTS}
    numbers = dict.fromkeys(NUMBERS, "%n")
    kept: dict[str, object] = {"requirements": {"%s": "%s"}}
    environment = {"environment": {"SEED_%s": "x%s"}}
    data = {**texts, **lists, **numbers, **kept, **environment, "parameters": {"values": ["A"]}}
    assert expand(data) == [
        {
            **dict.fromkeys(texts, "xA"), **{name: ["xA", "y"] for name in LISTS}, **dict.fromkeys(NUMBERS, 0), **kept,
            "environment": {"SEED_%s": "xA"},
        }
    ]  # fmt: skip


def test_requirements_differ_between_jobs_of_one_description() -> None:
    data = {
        "executable": "x", "sites": ["LCG.%(site)s.org"], "output_se": "%(site)s-USER", "cpu_time_s": "%(time)s",
        "input_sandbox": ["LFN:/vo/%(site)s.sif"], "input_data": ["/vo/100%%_%(site)s"], "memory_mb": "1%n00",
        "parameters": {"site": {"values": ["A", "B"]}, "time": {"count": 2, "start": 600, "step": 600}},
    }  # fmt: skip
    jobs = parse_all(data)
    assert [(job.sites, job.output_se, job.cpu_time_s, job.memory_mb) for job in jobs] == [
        (("LCG.A.org",), "A-USER", 600, 1000),
        (("LCG.B.org",), "B-USER", 1200, 1100),
    ]
    assert jobs[1].input_sandbox == ("LFN:/vo/B.sif",)
    assert jobs[1].input_data == ("/vo/100%_B",)


@pytest.mark.parametrize("value", ["%s", "x%s", "%j%n"])
def test_a_number_that_is_none_after_the_replacement_is_refused(value: str) -> None:
    data = {"executable": "x", "cpu_time_s": value, "parameters": {"values": ["long", "1.5"]}}
    assert list(refusal(data)) == ["cpu_time_s"]


@pytest.mark.parametrize("parameters", [{}, {"parameters": {"count": 2}}])
@pytest.mark.parametrize("field", EARLY)
def test_the_id_is_refused_where_it_would_be_needed_before_it_is_known(
    field: str, parameters: dict[str, object]
) -> None:
    for value in ("%j", ["a", "x%j"]):
        [sentence] = refusal({"executable": "x", field: value, **parameters})[field]
        assert sentence.startswith(f"%j cannot be in {field}, ")
    written = {field: ["a%%j"]}
    finished = expand({**written, **parameters})[-1] if parameters else finished_early({**written})
    assert finished == {field: ["a%j"]}


def test_a_list_takes_the_place_of_an_entry_of_a_list() -> None:
    data = {
        "executable": "x", "input_data": ["LFN:/vo/a", "%(files)s"], "input_sandbox": ["%(files)s"],
        "output_sandbox": ["%(files)s"], "arguments": "-p %(files)s", "environment": {"FILES": "%(files)s"},
        "parameters": {"files": {"values": [["LFN:/vo/b%%", "LFN:/vo/%s"], "LFN:/vo/c", []]}},
    }  # fmt: skip
    jobs = [substitute_job_id(job, 7, parametric=True) for job in parse_all(data)]
    assert [job.input_data for job in jobs] == [("/vo/a", "/vo/b%%", "/vo/%s"), ("/vo/a", "/vo/c"), ("/vo/a",)]
    assert [job.output_sandbox for job in jobs] == [("LFN:/vo/b%%", "LFN:/vo/%s"), ("LFN:/vo/c",), ()]
    assert jobs[0].input_sandbox == ("LFN:/vo/b%%", "LFN:/vo/%s")
    assert [job.arguments for job in jobs] == ["-p LFN:/vo/b%%,LFN:/vo/%s", "-p LFN:/vo/c", "-p "]
    assert jobs[0].environment == (("FILES", "LFN:/vo/b%%,LFN:/vo/%s"),)


@pytest.mark.parametrize(
    ("field", "value"), [("input_data", ["/vo/%s"]), ("std_output", "%s"), ("output_data", ["%s.root"])]
)
def test_a_list_is_no_part_of_a_text(field: str, value: object) -> None:
    [sentence] = refusal({"executable": "x", field: value, "parameters": {"values": [["a"]]}})[field]
    assert sentence.startswith("The values of %s are lists")


def test_lists_and_counted_values_stand_beside_each_other() -> None:
    parameters = {"": {"count": 2, "start": 5}, "x": {"values": ["a", "b"]}, "y": {"values": [["c"], ["d", 1]]}}
    assert arguments_of("%s %(x)s %(y)s", parameters) == ["5 a c", "6 b d,1"]


def test_percent_signs_of_templates_and_values_survive_both_stages() -> None:
    data = {"executable": "x", "arguments": "5% 10%% %%j %s %j %d", "parameters": {"values": ["%j", "100%", "%%"]}}
    finished = [substitute_job_id(job, 42, parametric=True).arguments for job in parse_all(data)]
    assert finished == ["5% 10% %j %j 42 %d", "5% 10% %j 100% 42 %d", "5% 10% %j %% 42 %d"]


@pytest.mark.parametrize("parameters", [{}, {"parameters": {"count": 1}}])
def test_the_job_id_is_put_into_every_text_that_is_not_needed_before(parameters: dict[str, object]) -> None:
    data: dict[str, object] = dict.fromkeys(LATE, "%j")
    data |= {"output_sandbox": ["%j"], "output_data": ["%j"], "environment": {"ID": "%j"}, "output_path": "/%j"}
    [job] = parse_all({**data, **parameters})
    finished = substitute_job_id(job, 7, parametric=bool(parameters))
    assert {getattr(finished, name) for name in LATE} == {"7", ("7",), (("ID", "7"),), "/7"}


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("date +%s %Y %% %%s %n %(a)s 100%", "date +%s %Y %% %%s %n %(a)s 100%"),
        ("%j", "42"),
        ("%j%j_%%j", "4242_%j"),
        ("%%%j %%%%j", "%%j %%%j"),
        ("%J %(j)s _PARAM_", "%J %(j)s _PARAM_"),
    ],
)
def test_only_the_id_is_replaced_in_a_job_that_is_not_parametric(text: str, finished: str) -> None:
    [job] = parse_all({"executable": "x", "arguments": text})
    assert substitute_job_id(job, 42, parametric=False).arguments == finished


@given(st.text(st.sampled_from("%jn"), max_size=9))
def test_what_is_written_literally_is_read_as_it_was(text: str) -> None:
    description = {"executable": "x", "arguments": text, "tags": [f"a{text}"], "environment": {"A": text}}
    [job] = parse_all(with_literal_ids(description))
    finished = substitute_job_id(job, 42, parametric=False)
    assert (finished.arguments, finished.tags, finished.environment) == (text, (f"a{text}",), (("A", text),))


def test_a_job_without_an_id_in_it_comes_back_as_the_same_object() -> None:
    job = parse({"executable": "x", "arguments": "5%"})
    assert substitute_job_id(job, 7, parametric=True) is job


@pytest.mark.parametrize(
    "parameters",
    [
        5, "10", [], {}, [1, 2], {"count": 0}, {"count": -1}, {"count": True}, {"count": 2.0}, {"count": "2"},
        {"count": MAX_PARAMETRIC_JOBS + 1}, {"start": 1}, {"cuont": 1}, {"values": []}, {"values": "ab"},
        {"values": [True]}, {"values": [None]}, {"values": [[[1]]]}, {"values": [[None]]}, {"values": [float("nan")]},
        {"values": [1] * (MAX_PARAMETRIC_JOBS + 1)}, {"values": [1], "count": 1}, {"values": [1], "start": 1},
        {"count": 2, "start": "a"}, {"count": 2, "step": float("inf")}, {"count": 100, "start": 1, "factor": 10},
        {"count": 9000, "start": 1.0, "factor": 2.0}, {"count": 2, "start": 10**400},
        {"a": {"count": 2}, "b": {"count": 3}},
        {"a": {"count": 2}, "b": 3}, {"1a": {"count": 1}}, {"a": {}}, {"": {"count": 1}},
        {f"s{number}": {"count": 1} for number in range(101)},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(parameters: object) -> None:
    assert list(refusal({"executable": "x", "parameters": parameters})) == ["parameters"]


def test_the_warning_names_each_field_in_which_the_id_is_put() -> None:
    job = described(parse({"executable": "x", "arguments": "%j", "output_data": ["a", "%j.root"], "job_name": "%%j"}))
    assert id_warning(job) == (
        "%j is replaced by the id of the job, in arguments and output_data; for %j as it stands, write %%j."
    )
    assert id_warning(described(parse({"executable": "date", "arguments": "+%s %%j"}))) == ""
    everywhere = {
        **dict.fromkeys(LATE, "%j"),
        "output_sandbox": ["%j"],
        "output_data": ["%j"],
        "environment": {"A": "%j"},
    }
    assert all(name in id_warning(described(parse(everywhere))) for name in LATE)


@pytest.mark.parametrize(
    ("texts", "parametric", "warned"),
    [
        (
            ["r_%s.root", "%j", "%%j", "a%20b%C3%A9", "100%"],
            False,
            ["%s in output_data is not replaced: the job is not"],
        ),
        (["%(x)s"], False, ["%(x)s in output_data is not replaced: the job is not parametric"]),
        (["_PARAM_.root"], False, ["_PARAM_ in output_data is not replaced: it is gLite's word for %s; write %s, and"]),
        (["_PARAM_.root"], True, ["_PARAM_ in output_data is not replaced: it is gLite's word for %s; write %s."]),
        (["%s_%n_%j_%(x)s_%%x"], True, []),
        (["%x", "%i"], True, ["%i in output_data is not replaced: there is no", "%x in output_data is not replaced"]),
    ],
)
def test_unknown_placeholders_in_names_of_files_are_told(texts: list[str], parametric: bool, warned: list[str]) -> None:
    told = list(unknown_placeholders({"arguments": "%x _PARAM_", "output_data": texts}, parametric=parametric))
    assert len(told) == len(warned)
    assert all(sentence.startswith(begin) for sentence, begin in zip(told, warned, strict=True))


def test_an_unknown_sequence_is_refused_with_the_nearest_name() -> None:
    data = {"executable": "x", "std_output": "%(enrgy)s.log", "parameters": {"energy": {"count": 2}}}
    [sentence] = refusal(data)["std_output"]
    assert 'Did you mean "energy"?' in sentence


@pytest.mark.parametrize(
    ("text", "parameters"), [("%s", {"a": {"count": 1}}), ("%(a)s", {"count": 1}), ("%()s", {"a": {"count": 1}})]
)
def test_named_and_unnamed_values_are_not_mixed_up(text: str, parameters: object) -> None:
    assert list(refusal({"executable": "x", "job_name": text, "parameters": parameters})) == ["job_name"]


def test_the_fault_of_a_later_job_names_its_number() -> None:
    data = {"executable": "x", "std_output": "%s", "parameters": {"values": ["a", "../b"]}}
    [sentence] = refusal(data)["std_output"]
    assert sentence.endswith("(In job number 1 of this parametric description.)")


def test_a_text_that_only_the_job_id_makes_too_long_is_refused() -> None:
    assert list(refusal({"executable": "x", "job_name": "x" * 250 + "%j", "parameters": {"count": 1}})) == ["job_name"]
    assert parse_all({"executable": "x", "job_name": "x" * 230 + "%j", "parameters": {"count": 1}})


def test_a_small_parametric_text_cannot_expand_to_gigabytes() -> None:
    assert list(refusal({"executable": "x", "arguments": "%n" * 16_000, "parameters": {"count": 10_000}})) == [
        "parameters"
    ]
    values = ["y" * 30_000]
    assert list(refusal({"executable": "x", "arguments": "%s" * 16_000, "parameters": {"values": values}})) == [
        "parameters"
    ]
    shared = {"executable": "x", "input_data": ["/lhcb/a"] * 1000, "parameters": {"count": 10_000}}
    assert list(refusal(shared)) == ["parameters"]


@given(st.integers(1, 60), st.integers(-50, 50), st.integers(-50, 50))
def test_counted_values_are_the_arithmetic_sequence(count: int, start: int, step: int) -> None:
    values = arguments_of("%s", {"count": count, "start": start, "step": step})
    assert values == [str(start + number * step) for number in range(count)]


TEXTS = st.text(st.sampled_from("%jsn()ab 1"), max_size=12)


@given(TEXTS.map(lambda text: text.replace("%(", "(")), st.lists(TEXTS, min_size=1, max_size=4))
def test_expansion_and_job_id_together_equal_one_pass_over_the_template(template: str, values: list[str]) -> None:
    jobs = parse_all({"executable": "x", "arguments": template, "parameters": {"values": values}})
    assert len(jobs) == len(values)
    for number, (job, value) in enumerate(zip(jobs, values, strict=True)):
        assert substitute_job_id(job, 42, parametric=True).arguments == one_pass(template, value, number)


def one_pass(template: str, value: str, number: int) -> str:
    replacement = {"%": "%", "s": value, "n": str(number), "j": "42"}
    result, at = "", 0
    while at < len(template):
        directive = template[at : at + 2]
        if len(directive) == 2 and directive[0] == "%" and directive[1] in replacement:
            result += replacement[directive[1]]
            at += 2
        else:
            result += template[at]
            at += 1
    return result


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just("\ud800%s\0"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("values"), inner, max_size=3),
    max_leaves=10,
)
PARAMETERS = (
    JSON_VALUES | st.fixed_dictionaries({"count": st.integers(-2, 4)}) | st.fixed_dictionaries({"values": JSON_VALUES})
)


@given(st.dictionaries(st.sampled_from(TEMPLATES), JSON_VALUES, max_size=5), PARAMETERS)
def test_any_json_is_expanded_or_refused_in_words(data: dict[str, object], parameters: object) -> None:
    try:
        jobs = parse_all({"executable": "x", **data, "parameters": parameters})
    except InvalidDescriptionError as refused:
        json.dumps({"detail": refused.detail, "errors": refused.errors}, ensure_ascii=False).encode()
    else:
        assert jobs
