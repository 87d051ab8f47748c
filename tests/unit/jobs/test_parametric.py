"""Parametric descriptions: the number of their jobs, and the values in each."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.description import InvalidDescriptionError, parse
from wms.jobs.domain.parametric import MAX_PARAMETRIC_JOBS, TEMPLATES, expand, parse_all, substitute_job_id


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


def test_every_text_is_a_template_and_nothing_else_is() -> None:
    data: dict[str, object] = {
        "executable": "run_%s", "arguments": ["-s", "%s"], "job_name": "j%s", "job_group": "g%s", "std_output": "o%s",
        "std_error": "e%s", "input_data": ["/a/%s"], "output_sandbox": ["%s.root", "log"], "output_data": ["b/%s"],
        "output_path": "/u/%s", "environment": {"SEED_%s": "%s", "N": "n"}, "sites": ["%s"], "tags": ["%s"],
        "software": ["%s"], "requirements": {"%s": "%s"}, "parameters": {"values": ["A"]},
    }  # fmt: skip
    assert expand(data) == [
        {
            "executable": "run_A", "arguments": ["-s", "A"], "job_name": "jA", "job_group": "gA", "std_output": "oA",
            "std_error": "eA", "input_data": ["/a/A"], "output_sandbox": ["A.root", "log"], "output_data": ["b/A"],
            "output_path": "/u/A", "environment": {"SEED_%s": "A", "N": "n"}, "sites": ["%s"], "tags": ["%s"],
            "software": ["%s"], "requirements": {"%s": "%s"},
        }
    ]  # fmt: skip


def test_percent_signs_of_templates_and_values_survive_both_stages() -> None:
    data = {"executable": "x", "arguments": "5% 10%% %%j %s %j %d", "parameters": {"values": ["%j", "100%", "%%"]}}
    finished = [substitute_job_id(job, 42).arguments for job in parse_all(data)]
    assert finished == ["5% 10% %j %j 42 %d", "5% 10% %j 100% 42 %d", "5% 10% %j %% 42 %d"]


def test_the_job_id_is_put_into_every_template() -> None:
    data: dict[str, object] = dict.fromkeys(TEMPLATES, "%j")
    data |= {name: ["%j"] for name in ("input_data", "output_sandbox", "output_data")}
    data |= {"environment": {"ID": "%j"}, "output_path": "/%j"}
    [job] = parse_all({**data, "sites": ["%j"], "parameters": {"count": 1}})
    finished = substitute_job_id(job, 7)
    assert {getattr(finished, name) for name in TEMPLATES} == {"7", ("7",), (("ID", "7"),), "/7"}
    assert finished.sites == ("%j",)


def test_a_job_without_an_id_in_it_comes_back_as_the_same_object() -> None:
    job = parse({"executable": "x", "arguments": "5%"})
    assert substitute_job_id(job, 7) is job


@pytest.mark.parametrize(
    "parameters",
    [
        5, "10", [], {}, [1, 2], {"count": 0}, {"count": -1}, {"count": True}, {"count": 2.0}, {"count": "2"},
        {"count": MAX_PARAMETRIC_JOBS + 1}, {"start": 1}, {"cuont": 1}, {"values": []}, {"values": "ab"},
        {"values": [True]}, {"values": [None]}, {"values": [[1]]}, {"values": [float("nan")]},
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
        assert substitute_job_id(job, 42).arguments == one_pass(template, value, number)


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
