"""The description of one job: all errors in it are reported at once."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.description import FIELDS, InvalidDescriptionError, JobDescription, as_json, parse
from wms.wire.amounts import AMOUNT

SANDBOX = "sha256:" + "0123456789abcdef" * 4
SMALLEST: Mapping[str, object] = {"executable": "/bin/true"}


def errors_of(data: Mapping[str, object]) -> dict[str, list[str]]:
    with pytest.raises(InvalidDescriptionError) as caught:
        parse(data)
    assert caught.value.code == "invalid_description"
    json.dumps(caught.value.errors).encode()
    return caught.value.errors


def test_a_field_left_out_has_the_default_of_the_contract() -> None:
    assert as_json(parse(SMALLEST)) == {
        "executable": "/bin/true", "arguments": "", "job_name": "", "job_group": "", "job_type": "User",
        "cpu_time_s": 86400, "priority": 1, "sites": [], "banned_sites": [], "grid_ces": [], "platforms": [],
        "pilot_types": [], "submit_pools": [], "grid_middlewares": [], "setup": None, "tags": [],
        **dict.fromkeys(AMOUNT, 0), "processors": 1, "stalled_s": None, "stalled_cpu_fraction": None,
        "container": "", "requirements": {},
        "software": [], "input_sandbox": [], "input_data": [],
        "output_sandbox": [], "output_data": [], "input_data_policy": "download", "output_se": None,
        "output_path": None, "overwrite": False, "std_output": "std.out", "std_error": "std.err", "environment": {},
    }  # fmt: skip


def test_all_errors_of_all_fields_are_reported_at_once() -> None:
    errors = errors_of(
        {"executable": "", "priority": 11, "sites": "CERN", "environment": {"1A": "x", "B": 2}, "cputime": 1}
    )
    assert set(errors) == {"executable", "priority", "sites", "environment", "cputime"}
    assert len(errors["environment"]) == 2


def test_an_unknown_field_is_refused_with_the_nearest_name() -> None:
    assert errors_of({**SMALLEST, "Executble": "x"}) == {
        "Executble": ['There is no field "Executble". Did you mean "executable"?']
    }


def test_many_unknown_fields_are_counted_not_listed() -> None:
    errors = errors_of({**SMALLEST, **{f"field{number}": 1 for number in range(5000)}})
    assert len(errors) == 11
    assert errors["description"] == ["4990 more fields are unknown too."]


#: By field.
WRONG_VALUES: list[tuple[str, object]] = [
    ("executable", None), ("executable", 1), ("executable", " \n"), ("executable", "x" * 1025),
    ("arguments", 1), ("arguments", ["a", 1]), ("arguments", "a\0b"), ("arguments", "\ud800"),
    ("arguments", "é" * 16385), ("arguments", ["x" * 20000, "y" * 20000]), ("job_name", "x" * 256),
    ("job_name", "a\nb"), ("job_name", "\x85"), ("job_name", "\u202efdp.exe"), ("job_name", "a\u2066"),
    ("job_name", "a\u200b"),
    ("job_group", "a\u2028b"), ("sites", ["\ufeffA"]), ("tags", ["a\u00adb"]), ("job_name", None), ("job_type", ""),
    ("setup", ""), ("setup", 1),
    ("cpu_time_s", 0), ("cpu_time_s", 2**31), ("cpu_time_s", True), ("cpu_time_s", 1.0), ("cpu_time_s", "1"),
    ("cpu_time_s", 10**4000), ("priority", -1), ("priority", 11), ("priority", False), ("processors", 0),
    ("processors", 1025), ("memory_mb", -1), ("memory_mb", 2 * 10**9 + 1), ("sites", "CERN"), ("sites", [""]),
    ("sites", ["a\tb"]), ("sites", ["x" * 256]), ("sites", ["x"] * 1001), ("sites", [["x"]]), ("sites", {}),
    ("sites", ["ANY", "CERN"]), ("submit_pools", ["any", "p"]),
    ("pilot_types", ["public"]), ("tags", [None]), ("input_sandbox", ["sha256:12"]),
    ("input_sandbox", [SANDBOX.upper()]), ("input_sandbox", [SANDBOX + "\n"]), ("output_sandbox", ["/etc/passwd"]),
    ("output_sandbox", ["a/../../b"]), ("output_sandbox", [".."]), ("std_output", "../x"), ("std_output", ""),
    ("std_error", "/dev/null"), ("std_error", "logs/"), ("environment", ["A=1"]), ("environment", {"A-B": "1"}),
    ("environment", {"": "1"}), ("environment", {"A": 1}), ("environment", {"A": "\0"}), ("requirements", "a > 1"),
    ("requirements", {"a": {"b": 1}}), ("requirements", {"a": None}), ("requirements", {"a": []}),
    ("requirements", {"a": [[1]]}), ("requirements", {"a": float("nan")}), ("requirements", {"a": float("inf")}),
    ("requirements", {"a": 2**63}), ("requirements", {"": 1}), ("requirements", {"A": 1, "a": 1}),
    ("requirements", {"a": "\0"}), ("software", [1]), ("output_data", [1.5]), ("input_data", [True]),
    ("parameters", {"count": 2}),
    ("wall_time_s", -1), ("wall_time_s", None), ("wall_time_s", 1.5), ("wall_time_s", "1"), ("wall_time_s", True),
    ("wall_time_s", 366 * 86400 + 1), ("gpus", -1), ("gpus", 1025), ("gpus", 0.5), ("gpus", True), ("gpus", [1]),
    ("stalled_s", 59), ("stalled_s", -1), ("stalled_s", 366 * 86400 + 1), ("stalled_s", "30 min"),
    ("stalled_s", 90.5),
    ("stalled_cpu_fraction", 0), ("stalled_cpu_fraction", 1.01), ("stalled_cpu_fraction", 5),
    ("stalled_cpu_fraction", True), ("stalled_cpu_fraction", "5 %"), ("stalled_cpu_fraction", float("nan")),
    ("disk_mb", -1), ("disk_mb", 2 * 10**9 + 1), ("disk_mb", "10 G"), ("container", None), ("container", True),
    ("container", ["docker://x"]), ("container", "x" * 1025), ("container", "docker://"),
    ("container", "docker://a b"), ("container", "instance://other"), ("container", "dokcer://x"),
    ("container", "://x"), ("container", "--bind=/"),
    ("container", "-"), ("container", "../image.sif"), ("container", "a/../../b.sif"), ("container", "a\nb"),
]  # fmt: skip


def test_a_wrong_value_is_refused_under_its_field(subtests: pytest.Subtests) -> None:
    for field, value in WRONG_VALUES:
        with subtests.test(f"{field}: {value!r:.80}"):
            errors = errors_of({**SMALLEST, field: value})
            assert list(errors) == [field]
            assert all(sentence[-1] in ".?" and sentence.isprintable() for sentence in errors[field])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_time_s", 1), ("cpu_time_s", 2**31 - 1), ("priority", 0), ("priority", 10), ("memory_mb", 0),
        ("processors", 1024), ("setup", None), ("job_name", "Zerfälle µµ"), ("input_sandbox", [SANDBOX]),
        ("output_sandbox", ["*.root", "logs/a..b"]), ("environment", {"_A1": "two\nlines"}), ("arguments", "a\n'b c'"),
        ("pilot_types", ["private", "generic"]), ("requirements", {"Memory": 4000.5, "GPU": True, "Tag": ["a", 1]}),
        ("sites", ["x"] * 1000), ("std_output", "logs/out.txt"),
        ("wall_time_s", 0), ("wall_time_s", 1), ("wall_time_s", 366 * 86400), ("gpus", 1024), ("disk_mb", 2 * 10**9),
        ("stalled_s", None), ("stalled_s", 0), ("stalled_s", 60), ("stalled_s", 366 * 86400),
        ("stalled_cpu_fraction", None), ("stalled_cpu_fraction", 0.001), ("stalled_cpu_fraction", 1),
        ("container", ""), ("container", "docker://registry.cern.ch:5000/lhcb/os@sha256:abc"),
        ("container", "image.sif"), ("container", "/cvmfs/unpacked.cern.ch/with space/image"), ("container", "library://user/name:1"),
    ],
)  # fmt: skip
def test_a_right_value_is_kept_as_it_is(field: str, value: object) -> None:
    assert as_json(parse({**SMALLEST, field: value}))[field] == value


def test_an_image_from_nowhere_is_refused_with_where_images_come_from() -> None:
    (sentence,) = errors_of({**SMALLEST, "container": "dokcer://alpine"})["container"]
    assert sentence == (
        "Images come from docker://, oras://, library://, https://, http:// or a file, "
        'not "dokcer://". Did you mean "docker://"?'
    )


def test_a_list_of_arguments_is_quoted_for_the_shell() -> None:
    assert parse({**SMALLEST, "arguments": ["a b", "$HOME", ""]}).arguments == "'a b' '$HOME' ''"


@pytest.mark.parametrize("field", ["sites", "grid_ces", "platforms", "grid_middlewares", "pilot_types"])
def test_any_means_no_restriction(field: str) -> None:
    assert as_json(parse({**SMALLEST, field: ["Any"]}))[field] == []


def test_banning_every_requested_site_is_refused() -> None:
    assert set(errors_of({**SMALLEST, "sites": ["A", "B"], "banned_sites": ["B", "A", "C"]})) == {"sites"}
    assert parse({**SMALLEST, "sites": ["A", "B"], "banned_sites": ["B"]}).sites == ("A", "B")
    assert parse({**SMALLEST, "banned_sites": ["B"]}).banned_sites == ("B",)


def test_requirements_beside_submit_pools_are_refused() -> None:
    assert set(errors_of({**SMALLEST, "requirements": {"a": 1}, "submit_pools": ["p"]})) == {"requirements"}


def test_an_expression_as_requirements_is_refused_with_a_hint() -> None:
    [sentence] = errors_of({**SMALLEST, "requirements": 'other.Site == "CERN"'})["requirements"]
    assert '{"name": value}' in sentence
    assert "expressions are not accepted" in sentence


def test_a_description_above_64_kb_is_refused() -> None:
    environment = {f"VARIABLE_{number}": "x" * 30_000 for number in range(3)}
    assert set(errors_of({**SMALLEST, "environment": environment})) == {"description"}


def test_environment_and_requirements_do_not_depend_on_their_order() -> None:
    one = parse({**SMALLEST, "environment": {"A": "1", "B": "2"}, "requirements": {"x": 1, "y": 2}})
    other = parse({**SMALLEST, "environment": {"B": "2", "A": "1"}, "requirements": {"y": 2, "x": 1}})
    assert one == other
    assert hash(one) == hash(other)


LINES = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)
NAMES = LINES.filter(lambda name: name.casefold() != "any")
LISTS = st.lists(NAMES, max_size=3)
FILES = st.sampled_from(["std.out", "logs/a.txt", "*.root", "b..c"])
SCALARS = st.one_of(LINES, st.booleans(), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(-1e18, 1e18, allow_nan=False))
REQUIREMENTS = st.dictionaries(
    LINES.map(str.casefold).filter(lambda name: name == name.casefold()),
    SCALARS | st.lists(SCALARS, min_size=1, max_size=3),
    max_size=3,
)
DESCRIPTIONS = st.fixed_dictionaries(
    {"executable": LINES},
    optional={
        "arguments": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
        "job_name": LINES, "job_group": LINES, "job_type": LINES, "setup": st.none() | LINES,
        "cpu_time_s": st.integers(1, 2**31 - 1), "priority": st.integers(0, 10), "processors": st.integers(1, 1024),
        "memory_mb": st.integers(0, 2 * 10**9), "wall_time_s": st.integers(0, 366 * 86400),
        "gpus": st.integers(0, 1024), "disk_mb": st.integers(0, 2 * 10**9),
        "stalled_s": st.none() | st.just(0) | st.integers(60, 366 * 86400),
        "stalled_cpu_fraction": st.none() | st.floats(0.001, 1.0),
        "container": st.sampled_from(["", "docker://alpine", "/images/a.sif", "own.sif"]),
        "sites": LISTS, "grid_ces": LISTS, "platforms": LISTS,
        "tags": LISTS, "software": LISTS, "input_data": LISTS, "output_data": st.lists(FILES, max_size=3),
        "output_se": st.none() | NAMES,
        "input_data_policy": st.sampled_from(["download", "in_place"]),
        "output_path": st.none() | st.sampled_from(["/lhcb/user/a/alice", "/a/b"]),
        "overwrite": st.booleans(),
        "pilot_types": st.sets(st.sampled_from(["private", "generic"])).map(list),
        "output_sandbox": st.lists(FILES, max_size=3), "std_output": FILES, "std_error": FILES,
        "environment": st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), LINES, max_size=3),
        "requirements": REQUIREMENTS,
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("input_data_policy", "in place", "in_place"), ("input_data_policy", "stream", "download"),
        ("output_path", "user//alice", "empty parts"), ("output_path", "/lhcb/../atlas", ".."),
        ("output_path", "/", "a directory of yours"), ("output_path", "LFN:/", "a directory of yours"),
        ("output_path", "/" + "x" * 192, "192"), ("output_se", 5, "string"), ("output_data", ["../x"], ".."),
        ("output_data", ["/lhcb/x"], "A logical name is written LFN:/vo/…"), ("output_data", ["LFN:x"], "absolute"),
        ("output_data", ["LFN:"], "LFN:/"),
        ("output_data", ["lfn:/lhcb/../x"], ".."), ("output_data", ["LFN:/lhcb/*.root"], "pattern"),
        ("output_data", ["LFN:/lhcb/" + "x" * 250], "255"),
    ],
)  # fmt: skip
def test_impossible_data_options_are_refused_with_a_hint(field: str, value: object, hint: str) -> None:
    assert hint in errors_of({**SMALLEST, field: value})[field][0]


def test_a_trailing_slash_of_the_output_path_is_ignored() -> None:
    assert parse({**SMALLEST, "output_path": "/lhcb/user/a/alice/"}).output_path == "/lhcb/user/a/alice"


@given(DESCRIPTIONS)
def test_a_description_comes_back_equal_from_its_json(data: dict[str, object]) -> None:
    description = parse(data)
    stored = json.loads(json.dumps(as_json(description)))
    assert parse(stored) == description
    assert as_json(parse(stored)) == stored
    assert tuple(stored) == FIELDS
    assert isinstance(hash(description), int)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just("\ud800\0"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "parameters", "x"]) | st.text(max_size=5), JSON_VALUES, max_size=8))
def test_any_json_is_read_or_refused_in_words(data: dict[str, object]) -> None:
    try:
        description = parse(data)
    except InvalidDescriptionError as refused:
        answer = {"detail": refused.detail, "errors": refused.errors}
        json.dumps(answer, ensure_ascii=False).encode()
    else:
        assert isinstance(description, JobDescription)


def test_json_nested_too_deep_for_python_is_refused_in_words() -> None:
    nested: object = 1
    for _ in range(100_000):
        nested = [nested]
    assert set(errors_of({**SMALLEST, "sites": nested, "requirements": {"a": nested}, "arguments": nested})) == {
        "sites", "requirements", "arguments",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "text", "number"),
    [
        ("memory_mb", "4GB", 4000), ("memory_mb", "500 mb", 500), ("disk_mb", "1TB", 1_000_000),
        ("wall_time_s", "90m", 5400), ("cpu_time_s", "24h", 86_400), ("cpu_time_s", "2 d", 172_800),
    ],
)  # fmt: skip
def test_a_text_with_its_unit_is_a_time_or_a_size(field: str, text: str, number: int) -> None:
    assert getattr(parse({"executable": "a", field: text}), field) == number


@pytest.mark.parametrize(
    ("field", "text"),
    [("memory_mb", "4000"), ("memory_mb", "4h"), ("memory_mb", "9999999TB"), ("cpu_time_s", ""), ("processors", "2GB")],
)
def test_other_texts_are_no_numbers(field: str, text: str) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        parse({"executable": "a", field: text})
    assert list(refused.value.errors) == [field]
