"""Parameters: valid values, and inheritance by queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.parameters import (
    LevelParameters,
    ValueProblem,
    canonical,
    canonical_name,
    canonical_value,
    effective,
    problems_of,
    values_of,
)

scalars = st.one_of(
    st.text(max_size=8).filter(lambda text: "\x00" not in text),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**62), max_value=2.0**62),
    st.booleans(),
)
values = scalars | st.lists(scalars, min_size=1, max_size=5)
names = st.sampled_from(["Memory", "memory", "MEMORY", "SoftwareTag", "softwaretag", "CPUModel"])
layers = st.dictionaries(names, st.integers(0, 3) | st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=4)


def test_a_queue_inherits_from_its_computing_element_and_its_site() -> None:
    site = LevelParameters(general={"Memory": 2000, "CPUModel": "Xeon", "Database": "near"})
    ce = LevelParameters(general={"memory": 3000, "CPUModel": "EPYC"})
    queue = LevelParameters(general={"MEMORY": 4000})
    assert effective(site, ce, queue) == {"memory": 4000, "cpumodel": "EPYC", "database": "near"}


def test_the_level_decides_before_the_vo() -> None:
    site = LevelParameters(general={"Memory": 2000}, of_vo={"Memory": 8000})
    queue = LevelParameters(general={"Memory": 4000})
    assert effective(site, LevelParameters(), queue) == {"memory": 4000}


def test_at_one_level_the_value_of_the_vo_wins() -> None:
    assert effective(LevelParameters(general={"Memory": 2000}, of_vo={"memory": 8000})) == {"memory": 8000}


def test_a_list_replaces_the_inherited_list() -> None:
    site = LevelParameters(general={"SoftwareTag": ["v1", "v2"]})
    queue = LevelParameters(general={"SoftwareTag": ["v3"]})
    assert effective(site, queue) == {"softwaretag": "v3"}


def test_only_the_values_of_the_named_vo_are_read() -> None:
    stored = {"lhcb": {"Memory": 1}, "atlas": {"Memory": 2}}
    assert effective(LevelParameters.read({}, stored, vo="atlas")) == {"memory": 2}
    assert effective(LevelParameters.read({}, stored, vo=None)) == {}


@pytest.mark.parametrize("stored", [None, [], "text", 3])
def test_a_row_written_by_hand_offers_nothing_instead_of_failing(stored: object) -> None:
    assert effective(LevelParameters.read(stored, stored, vo="lhcb")) == {}


@given(layers, layers, layers, layers)
def test_each_name_has_the_value_of_the_nearest_level_that_gives_it(
    outer: dict[str, object], outer_vo: dict[str, object], inner: dict[str, object], inner_vo: dict[str, object]
) -> None:
    found = effective(LevelParameters(general=outer, of_vo=outer_vo), LevelParameters(general=inner, of_vo=inner_vo))
    nearest_first = [canonical(layer) for layer in (inner_vo, inner, outer_vo, outer)]
    assert set(found) == {name for layer in nearest_first for name in layer}
    for name, value in found.items():
        assert value == next(layer[name] for layer in nearest_first if name in layer)


@given(values)
def test_a_canonical_value_stays_as_it_is(value: object) -> None:
    once = canonical_value(value)
    assert canonical_value(once) == once
    assert canonical_value(list(values_of(once))) == once


@given(st.text(max_size=200))
def test_a_canonical_name_stays_as_it_is(name: str) -> None:
    try:
        once = canonical_name(name)
    except ValueProblem:
        return
    assert canonical_name(once) == once


def test_numbers_texts_and_booleans_stay_apart() -> None:
    assert canonical_value([1, "1", True, 1.0]) == (True, 1, "1")
    assert [type(value) for value in values_of(canonical_value([1, "1", True, 1.0]))] == [bool, int, str]


@pytest.mark.parametrize(
    "value",
    [[], {}, None, {"a": 1}, [[1]], [None], float("nan"), float("inf"), 2**63, 10**400, 1e300, "a\0b", "\ud800", b"b"],
)
def test_incomparable_values_are_refused(value: object) -> None:
    with pytest.raises(ValueProblem):
        canonical_value(value)


@pytest.mark.parametrize("name", ["", "  ", "x" * 129, "a\0", "\ud800", 3, None])
def test_a_name_is_a_short_text(name: object) -> None:
    with pytest.raises(ValueProblem):
        canonical_name(name)


def test_problems_name_each_wrong_entry() -> None:
    assert problems_of({"Memory": 1}) == {}
    assert problems_of([1]) == {"": "use names with their values"}
    found = problems_of({"Memory": 1, "memory": 2, "Tag": [], "Other": None})
    assert set(found) == {"memory", "Tag", "Other"}
    assert found["memory"] == '"Memory" is the same name; case is ignored'
