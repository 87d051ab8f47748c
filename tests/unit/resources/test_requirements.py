"""Requirements: their identity, and which resources meet them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.eligibility import LevelParameterSets, Supply
from resources.domain.enums import RequirementKind
from resources.domain.parameters import LevelParameters, Value, canonical_name, effective
from resources.domain.requirements import (
    NO_KINDS,
    Kinds,
    RequirementsError,
    canonical,
    check,
    meets,
    requirements_in_words,
    submit_pool_id,
    unmet,
)

CAPACITY = {"memory": RequirementKind.CAPACITY}
EXACT = {"memory": RequirementKind.EXACT}
SET = {"memory": RequirementKind.SET}

#: The example of RFC7.
RFC_EXAMPLE = {"SoftwareTag": ["AppVersion1", "AppVersion2"], "CPUModel": "Intel Xeon", "Memory": 4000}

names = st.sampled_from(["Memory", "SoftwareTag", "CPUModel", "Database", "Scratch"])
numbers = st.integers(-(10**6), 10**6)
texts = st.sampled_from(["AppVersion1", "AppVersion2", "Intel Xeon", "4000", ""])
scalars = numbers | texts | st.booleans() | st.floats(-1e6, 1e6)
value_lists = st.lists(scalars, min_size=1, max_size=4)
records = st.dictionaries(names, value_lists, max_size=5)


def offers(**parameters: object) -> Mapping[str, Value]:
    """Return the effective parameters of a resource with these parameters alone."""
    return effective(LevelParameters(general=parameters))


def pool(requirements: object) -> str:
    """Return the identifier of the pool of lhcb's jobs with these requirements."""
    return submit_pool_id("lhcb", canonical(requirements))


# ---- Identity --------------------------------------------------------------------------------------------------------


@given(records, st.randoms(use_true_random=False))
def test_order_case_duplicates_and_spelling_of_numbers_make_no_difference(
    record: dict[str, list[object]], random: Random
) -> None:
    def respelt(scalar: object) -> object:
        return float(scalar) if isinstance(scalar, int) and not isinstance(scalar, bool) else scalar

    shuffled = []
    for name, value in record.items():
        doubled = [respelt(scalar) for scalar in value] + value
        random.shuffle(doubled)
        shuffled.append((random.choice([name.lower(), name.upper(), name]), doubled))
    random.shuffle(shuffled)
    assert pool(dict(shuffled)) == pool(record)


@given(records, records)
def test_only_equal_requirements_share_a_pool(one: dict[str, object], other: dict[str, object]) -> None:
    same = json.dumps(canonical(one)) == json.dumps(canonical(other))
    assert (pool(one) == pool(other)) == same


@given(records)
def test_the_canonical_form_survives_storage(record: dict[str, object]) -> None:
    found = canonical(record)
    assert list(found) == sorted(found)
    assert canonical(json.loads(json.dumps(found))) == found
    assert submit_pool_id("lhcb", json.loads(json.dumps(found))) == submit_pool_id("lhcb", found)


def test_a_list_of_one_is_its_element() -> None:
    assert pool({"Tag": ["v1"]}) == pool({"tag": "v1"})


def test_pools_of_two_vos_differ() -> None:
    found = canonical(RFC_EXAMPLE)
    assert submit_pool_id("lhcb", found) != submit_pool_id("atlas", found)


def test_the_case_of_values_counts() -> None:
    assert pool({"Tag": "v1"}) != pool({"Tag": "V1"})


def test_the_identifier_is_stable() -> None:
    # Written out: a pool's identifier is in the database and in the hands of pilots.
    assert json.dumps(canonical(RFC_EXAMPLE), sort_keys=True) == (
        '{"cpumodel": "Intel Xeon", "memory": 4000, "softwaretag": ["AppVersion1", "AppVersion2"]}'
    )
    assert re.fullmatch(r"[0-9a-f]{64}", pool(RFC_EXAMPLE))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"A": 1}, {"A": 1.0}),
        ({"A": 1000}, {"A": 1e3}),
        ({"A": 0}, {"A": -0.0}),
        ({"A": [1, 1.0, 1]}, {"A": 1}),
        ({"A": ("x", "y")}, {"A": ["y", "x", "x"]}),
        ({"Straße": 1}, {"STRASSE": 1}),
        ({" A ": 1}, {"a": 1}),
        ({}, {}),
    ],
)
def test_equal_requirements_in_different_spellings_share_a_pool(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert pool(one) == pool(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"A": 1}, {"A": True}),
        ({"A": 0}, {"A": False}),
        ({"A": [0, False]}, {"A": 0}),
        ({"A": 1}, {"A": "1"}),
        ({"A": True}, {"A": "true"}),
        ({"A": 2**53}, {"A": 2**53 + 1}),
        ({"A": 0.1}, {"A": 0.1000001}),
        ({"A": ["a", "b"]}, {"A": "a,b"}),
        ({"A": "a "}, {"A": "a"}),
        ({"A": 1, "B": 1}, {"A": 1}),
        ({"A": ""}, {}),
    ],
)
def test_similar_but_different_requirements_have_different_pools(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert pool(one) != pool(other)


@given(st.dictionaries(st.text(min_size=1, max_size=8), value_lists, max_size=4))
def test_any_names_are_canonical_after_once_or_refused(record: dict[str, object]) -> None:
    with suppress(RequirementsError):
        assert canonical(canonical(record)) == canonical(record)


@given(records, st.lists(records, max_size=6))
def test_many_queues_at_once_as_each_by_itself(record: dict[str, object], described: list[dict[str, object]]) -> None:
    asked, said = canonical(record), [offers(**parameters) for parameters in described]
    numbers = np.arange(len(said), dtype=np.int64)
    supply = Supply(numbers + 10, [LevelParameterSets([{}], numbers * 0), LevelParameterSets(said, numbers)])
    assert supply.eligible(asked) == [
        number + 10 for number, parameters in enumerate(said) if not unmet(asked, parameters)
    ]
    assert supply.held_back(asked) == {
        name: sum(bool(unmet({name: value}, parameters)) for parameters in said) for name, value in asked.items()
    }


def test_units_are_shown_with_numbers() -> None:
    asked, units = canonical({"Memory": [4000, 8000], "Tag": "x"}), {"memory": "MB", "tag": "pieces"}
    assert unmet(asked, offers(Memory=2000), CAPACITY, units) == (
        "memory: 2000 MB there, 4000 or 8000 MB required",
        "tag: not described there, x required",
    )
    with pytest.raises(RequirementsError, match="a capacity in MB; give a number"):
        check({"Memory": "much"}, known=["Memory"], kinds=CAPACITY, units=units)


@pytest.mark.parametrize(
    ("asked", "offered", "sentence"),
    [
        (4000, "4000", 'a: "4000" there, 4000 required'),
        ("1.2", 1.2, 'a: 1.2 there, "1.2" required'),
        (True, ["true", "x"], 'a: "true" or x there, true required'),
        ("", "x", 'a: x there, "" required'),
        ("x ", "x", 'a: x there, "x " required'),
        ("1.2.3", "v1", "a: v1 there, 1.2.3 required"),
    ],
)
def test_a_text_is_not_shown_as_the_number_that_it_looks_like(asked: object, offered: object, sentence: str) -> None:
    assert unmet(canonical({"A": asked}), offers(A=offered)) == (sentence,)


@pytest.mark.parametrize(
    ("requirements", "field"),
    [
        ("other.Memory > 4000", "requirements"),
        ([1], "requirements"),
        (None, "requirements"),
        ({"Memory": None}, "requirements.Memory"),
        ({"Memory": {"min": 1}}, "requirements.Memory"),
        ({"Memory": []}, "requirements.Memory"),
        ({"Memory": float("nan")}, "requirements.Memory"),
        ({"Memory": float("inf")}, "requirements.Memory"),
        ({"Memory": [1, float("-inf")]}, "requirements.Memory"),
        ({"Memory": 2**63}, "requirements.Memory"),
        ({"Memory": 10**400}, "requirements.Memory"),
        ({"Memory": [[1]]}, "requirements.Memory"),
        ({"Memory": ["a", ["b"]]}, "requirements.Memory"),
        ({"ß": 1, "SS": 1}, "requirements.SS"),
        ({" a": 1, "A ": 2}, "requirements.A "),
        ({"a\0": 1}, "requirements.a\0"),
        ({"Memory": 1, "memory": 1}, "requirements.memory"),
        ({"": 1}, "requirements."),
        ({f"n{i}": 1 for i in range(101)}, "requirements"),
    ],
)
def test_requirements_that_are_not_a_record_are_refused(requirements: object, field: str) -> None:
    with pytest.raises(RequirementsError) as refusal:
        canonical(requirements)
    assert list(refusal.value.errors) == [field]
    # Who sees the sentence alone knows what it is about.
    assert field.removeprefix("requirements.").partition("\0")[0] in refusal.value.detail


def test_an_expression_is_refused_with_a_hint() -> None:
    with pytest.raises(RequirementsError, match=r'write a record of names and values, such as \{"Memory": 4000'):
        canonical("Memory >= 4000")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequirementsError) as refusal:
        check({"Memry": 4000, "Tag": "x"}, known=["Memory", "SoftwareTag", "tag"])
    sentence = 'The requirement "Memry" is described by no resource of your VO. Did you mean "Memory"?'
    assert refusal.value.errors == {"requirements.Memry": [sentence]}
    assert refusal.value.detail == sentence


def test_a_capacity_requirement_in_words_is_refused() -> None:
    with pytest.raises(RequirementsError, match='The requirement "MEMORY" is a capacity; give a number'):
        check({"MEMORY": "much"}, known=["Memory"], kinds=CAPACITY)
    check({"Memory": [4000, 8000]}, known=["Memory"], kinds=CAPACITY)


# ---- Satisfaction ----------------------------------------------------------------------------------------------------


def test_the_example_of_the_rfc() -> None:
    asked = canonical(RFC_EXAMPLE)
    fits = {"SoftwareTag": ["AppVersion2", "AppVersion9"], "CPUModel": "Intel Xeon", "Memory": 4000}
    assert unmet(asked, offers(**fits)) == ()
    assert unmet(asked, offers(**{**fits, "Memory": 8000, "Other": 1})) == ()
    assert unmet(asked, offers(**{**fits, "Memory": 3999})) == ("memory: 3999 there, 4000 required",)
    assert unmet(asked, offers(**{**fits, "SoftwareTag": "AppVersion9"})) == (
        "softwaretag: AppVersion9 there, AppVersion1 or AppVersion2 required",
    )
    assert unmet(asked, offers(Memory=4000)) == (
        "cpumodel: not described there, Intel Xeon required",
        "softwaretag: not described there, AppVersion1 or AppVersion2 required",
    )


@pytest.mark.parametrize(
    ("asked", "offered", "kinds", "fits"),
    [
        # Without a definition: a number is a capacity, everything else a set.
        (4000, 4000, {}, True),
        (4000, 4000.5, {}, True),
        (4000, 3999, {}, False),
        (4000, "4000", {}, False),
        (4000, True, {}, False),
        ("a", ["a", "b"], {}, True),
        ("a", "A", {}, False),
        (["a", "c"], ["b", "c"], {}, True),
        (["a", "c"], "b", {}, False),
        ([1000, 4000], 4000, {}, True),
        ([1000, 4000], 2000, {}, False),
        (True, True, {}, True),
        (True, 1, {}, False),
        # With one.
        ([1000, 4000], 2000, CAPACITY, True),
        (3000, [2000, 4000], CAPACITY, False),
        (2000, [2000, 4000], CAPACITY, True),
        ("much", 4000, CAPACITY, False),
        (2000, 4000, SET, False),
        (2000, [2000, 4000], SET, True),
        (4000, 4000, EXACT, True),
        (4000, 8000, EXACT, False),
        ([4000, 8000], 8000, EXACT, True),
        ("a", ["a", "b"], EXACT, False),
        (["a", "b"], ["b", "a"], EXACT, True),
    ],
)
def test_one_requirement_against_one_parameter(
    asked: object,
    offered: object,
    kinds: Kinds,
    fits: bool,
) -> None:
    requirements = canonical({"Memory": asked})
    assert bool(unmet(requirements, offers(Memory=offered), kinds)) is not fits


@given(records)
def test_a_resource_that_offers_exactly_the_requirement_is_eligible(record: dict[str, object]) -> None:
    assert unmet(canonical(record), offers(**record)) == ()


@given(records, st.data())
def test_a_parameter_that_is_absent_is_not_met(record: dict[str, object], data: st.DataObject) -> None:
    if record:
        missing = data.draw(st.sampled_from(sorted(record)))
        offered = offers(**{name: value for name, value in record.items() if name != missing})
        (reason,) = unmet(canonical(record), offered)
        assert reason.startswith(f"{missing.lower()}: not described there")


@given(numbers, numbers)
def test_a_capacity_fits_from_the_number_itself_upwards(asked: int, offered: int) -> None:
    assert bool(unmet(canonical({"Memory": asked}), offers(Memory=offered))) is (asked > offered)


@given(records, records)
def test_requirements_after_storage_are_met_as_before(record: dict[str, object], offered: dict[str, object]) -> None:
    asked = canonical(record)
    stored, parameters = json.loads(json.dumps(asked)), offers(**offered)
    for name, value in asked.items():
        before = meets(name, value, parameters.get(name), NO_KINDS)
        assert meets(name, stored[name], parameters.get(name), NO_KINDS) is before


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("4000", "Write 4000, without quotes."),
        ([4000, "8e3"], "Write 8e3, without quotes."),
        (-1, "It must be 0 or more."),
        (True, "is a capacity in MB; give a number."),
        ("4 GB", "is a capacity in MB; give a number."),
    ],
)
def test_a_non_numeric_capacity_requirement_is_refused_with_a_remedy(asked: object, hint: str) -> None:
    with pytest.raises(RequirementsError) as refused:
        check({"Memory": asked}, known=["Memory"], kinds=CAPACITY, units={"memory": "MB"})
    assert refused.value.errors["requirements.Memory"][0].endswith(hint)


@pytest.mark.parametrize("name", ["\u01f0x", "\u0390", "\u1e96t", "Su\u0308d", "Stra\u00dfe", "\u0130b"])
def test_a_name_that_a_resource_carries_is_known_however_its_case_folds(name: str) -> None:
    """To fold the case of some letters decomposes them."""
    check({name: 1}, known=[name])
    assert requirements_in_words({name: 1}, units={canonical_name(name): "MB"}) == f"{name} = 1 MB"
