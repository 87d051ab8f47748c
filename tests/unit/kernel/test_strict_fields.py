"""Serializers accept one JSON type for each field, and no unknown fields."""

from typing import Any

import pytest
from rest_framework import serializers

from wms.kernel.rest import Flag, Number, StrictSerializer, Text, WholeNumber, answer_error
from wms.kernel.rest.serializers import MAX_UNKNOWN_LISTED


class Part(StrictSerializer):
    size = WholeNumber(max_value=5)


class Whole(StrictSerializer):
    name = Text(max_length=10)
    weight = Number(required=False)
    open = Flag(required=False)
    parts = Part(many=True, required=False)
    tags = serializers.ListField(child=Text(), required=False)
    answer = Text(read_only=True)


def refusal(data: object) -> dict[str, Any]:
    """Return the body of the refusal of *data*."""
    with pytest.raises(serializers.ValidationError) as error:
        Whole.checked(data)
    answer = answer_error(error.value, {})
    assert answer is not None
    assert answer.status_code == 400
    assert answer.data["code"] == "invalid_input"
    body: dict[str, Any] = answer.data
    return body


def test_valid_values_are_accepted_unchanged() -> None:
    given = {"name": " x ", "weight": 1, "open": False, "parts": [{"size": 3.0}], "tags": []}
    assert Whole.checked(given) == {"name": " x ", "weight": 1.0, "open": False, "parts": [{"size": 3}], "tags": []}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("name", True),
        ("name", None),
        ("name", ["x"]),
        ("name", {}),
        ("name", ""),
        ("name", "x" * 11),
        ("weight", "1"),
        ("weight", True),
        ("weight", float("nan")),
        ("weight", float("inf")),
        ("open", 1),
        ("open", "yes"),
        ("open", []),
        ("parts", {}),
        ("parts", "x"),
        ("tags", "x"),
        ("tags", {"0": "x"}),
    ],
)
def test_a_value_of_another_kind_is_refused_under_its_field(field: str, value: object) -> None:
    assert list(refusal({"name": "x", field: value})["errors"]) == [field]


@pytest.mark.parametrize("value", ["3", 3.5, True, None, 10**30, 6, []])
def test_a_nested_value_is_named_with_dots(value: object) -> None:
    assert list(refusal({"name": "x", "parts": [{"size": 1}, {"size": value}]})["errors"]) == ["parts.1.size"]


def test_a_value_in_a_list_is_named_by_its_place() -> None:
    assert refusal({"name": "x", "tags": ["a", 3]})["errors"] == {"tags.1": ["Not a valid string."]}


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    body = refusal({"nmae": "x", "name": "x"})
    assert body["errors"] == {"nmae": ['Unknown field. Did you mean "name"?']}
    assert body["detail"] == 'nmae: Unknown field. Did you mean "name"?'


def test_an_unknown_field_inside_is_refused_too() -> None:
    assert refusal({"name": "x", "parts": [{"size": 1, "siz": 1}]})["errors"] == {
        "parts.0.siz": ['Unknown field. Did you mean "size"?']
    }


def test_a_field_that_is_only_answered_cannot_be_sent() -> None:
    assert list(refusal({"name": "x", "answer": "y"})["errors"]) == ["answer"]


def test_all_errors_are_reported_at_once_misspelt_names_first() -> None:
    body = refusal({"nam": "x", "weight": "heavy", "open": 3})
    assert list(body["errors"]) == ["nam", "name", "weight", "open"]
    assert body["detail"] == 'nam: Unknown field. Did you mean "name"? (3 more in errors)'


@pytest.mark.parametrize(
    ("data", "kind"), [([], "a list"), ("x", "a string"), (3, "a number"), (1.5, "a number"), (True, "true or false")]
)
def test_a_body_that_is_not_an_object_is_refused(data: object, kind: str) -> None:
    assert refusal(data)["errors"] == {"body": [f"Expected an object, got {kind}."]}


def test_null_is_refused_as_an_object() -> None:
    assert list(refusal(None)["errors"]) == ["body"]


def test_the_answer_to_thousands_of_unknown_fields_is_bounded() -> None:
    body = refusal({"name": "x", **{f"name{number}": 1 for number in range(5000)}})
    assert len(body["errors"]) == MAX_UNKNOWN_LISTED


def test_a_very_long_unknown_name_is_shortened() -> None:
    (name,) = refusal({"name": "x", "y" * 1_000_000: 1})["errors"]
    assert name == "y" * 64
