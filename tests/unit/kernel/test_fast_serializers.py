"""The fast check of a body accepts exactly what the fields accept, with the same values."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from matching.api.serializers import FinishIn, HeartbeatIn, OfferIn, PreviewIn, StatusIn, UsageIn
from tests.cases import quick_cases
from wms.kernel.fast.serializers import FastSerializer
from wms.kernel.rest import Flag, Number, StrictSerializer, Text, WholeNumber, load_json

UUID_TEXT = "123e4567-e89b-42d3-a456-426614174000"


class Everything(FastSerializer):
    name = Text(max_length=3)
    remark = Text(required=False, allow_blank=True, allow_null=True)
    is_open = Flag(required=False)
    size = WholeNumber(min_value=-2, max_value=5, default=1)
    count = WholeNumber(required=False)
    weight = Number(min_value=0, max_value=10**12, required=False, allow_null=True)
    key = serializers.UUIDField(required=False)
    tags = serializers.ListField(child=Text(max_length=2), max_length=2, required=False)
    numbers = serializers.ListField(child=WholeNumber(), required=False)
    color = serializers.ChoiceField(choices=["red", "blue", 7], required=False, allow_null=True)
    usage = UsageIn(required=False)


def by_fields(body: type[FastSerializer], data: object) -> dict[str, Any] | None:
    """Return the values that the fields themselves make of *data*; None: refused."""
    try:
        values: dict[str, Any] = StrictSerializer.run_validation(body(), data)
    except ValidationError:
        return None
    return values


def checked(body: type[FastSerializer], data: object) -> dict[str, Any] | None:
    try:
        return body.checked(data)
    except ValidationError:
        return None


def exact(value: object) -> object:
    """Return *value* with the type of each part, because True == 1 == 1.0."""
    if isinstance(value, dict):
        return {name: exact(part) for name, part in value.items()}
    return [exact(part) for part in value] if isinstance(value, list) else (type(value), value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [3.0, -0.0, 1e12, 10**12 + 1, "", "x", UUID_TEXT, UUID_TEXT.replace("-", ""), "ANY", "red", 7, "Completing"]
    ),
    TEXTS,
    st.sampled_from([255, 256]).map(lambda length: "\N{GRINNING FACE}" * length),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(TEXTS | st.sampled_from(["cpu_s", "wall_s"]), SCALARS, max_size=2),
)


@pytest.mark.parametrize("part", quick_cases(range(4), quick=1))
@pytest.mark.parametrize("body", [Everything, OfferIn, PreviewIn, UsageIn, HeartbeatIn, StatusIn, FinishIn])
@settings(max_examples=25)
@given(data=st.data())
def test_fast_validation_accepts_the_same_bodies(body: type[FastSerializer], part: int, data: st.DataObject) -> None:
    names = st.sampled_from([*body().fields, "nmae"])
    right = {name: value for name, value in RIGHT.items() if name in body().fields}
    changes = data.draw(st.dictionaries(names, VALUES, max_size=3))
    left_out = data.draw(st.sets(names, max_size=3))
    sent = load_json(json.dumps({name: v for name, v in {**right, **changes}.items() if name not in left_out}).encode())
    assert exact(checked(body, sent)) == exact(by_fields(body, sent))


RIGHT = {
    "name": "x",
    "cpu_time_s": 300_000,
    "request_id": UUID_TEXT,
    "tags": ["a", "b"],
    "required_tags": [],
    "platforms": ["x86_64-el9"],
    "is_open": True,
    "container": False,
    "cpu_s": 1.5,
    "acknowledged": [3],
    "status": "Running",
    "minor_status": "Input data resolved",
    "color": "blue",
    "exit_code": 0,
    "usage": {"cpu_s": 1.5, "disk_mb": None},
    "fault": "job",
}


@given(value=VALUES | st.lists(VALUES))
@example(value={1: 2})
def test_bodies_that_are_not_objects_are_refused_by_fast_validation(value: object) -> None:
    assert checked(Everything, value) is None


def test_omitted_fields_have_no_value() -> None:
    assert Everything.checked({"name": "x", "key": UUID_TEXT}) == {"name": "x", "size": 1, "key": UUID(UUID_TEXT)}


def test_each_body_gets_lists_of_its_own() -> None:
    one, other = (Everything.checked({"name": "x", "tags": []}) for _ in range(2))
    one["tags"].append("y")
    assert other["tags"] == []


def test_fields_with_custom_validation_are_not_plain() -> None:
    with pytest.raises(TypeError, match="open is not a plain field but DateField"):

        class Odd(FastSerializer):
            open = serializers.DateField()


def test_a_serializer_that_validates_for_itself_is_not_plain() -> None:
    with pytest.raises(TypeError, match=r"it has validate$"):

        class Whole(FastSerializer):
            name = Text()

            def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
                return attrs

    with pytest.raises(TypeError, match=r"it has validate_name$"):

        class OneField(FastSerializer):
            name = Text()

            def validate_name(self, name: str) -> str:
                return name


def test_the_first_bodies_may_be_checked_by_many_threads_at_once() -> None:
    # A type that were prepared by its first use would end this process, by a segmentation fault in msgspec.
    patience_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            together = Barrier(6)

            class Fresh(Everything):
                more = WholeNumber()

            def check(body: type[FastSerializer] = Fresh, together: Barrier = together) -> object:
                together.wait()
                return body.checked({"name": "x", "more": 3})

            with ThreadPoolExecutor(6) as pool:
                answers = [pool.submit(check) for _ in range(6)]
            assert [answer.result() for answer in answers] == [{"name": "x", "size": 1, "more": 3}] * 6
    finally:
        sys.setswitchinterval(patience_s)
