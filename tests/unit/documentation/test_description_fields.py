"""The tables of docs/descriptions.md: every field, with the bounds that the parser has."""

from collections.abc import Mapping
from typing import Any

import pytest
from rest_framework import serializers

from docs.generators.description_fields import SECTIONS, sections
from wms.jobs.api.bodies import SubmissionBody
from wms.jobs.domain.description import KNOWN_FIELDS, InvalidDescriptionError, parse

# NB: Any: each kind of field has bounds of its own.
BODY: Mapping[str, Any] = SubmissionBody().fields


def fields(kind: type[Any]) -> list[str]:
    """Return the names of the fields of exactly a kind: a choice is no text."""
    return [name for name in KNOWN_FIELDS if type(BODY[name]) is kind]


def is_accepted(name: str, value: object) -> bool:
    try:
        parse({"executable": "/bin/date", name: value})
    except InvalidDescriptionError:
        return False
    return True


def test_each_field_has_one_row() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(KNOWN_FIELDS)
    rows = [line.split("`")[1] for line in sections().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(KNOWN_FIELDS)


@pytest.mark.parametrize("name", fields(serializers.IntegerField))
def test_the_bounds_of_a_number_are_those_of_the_parser(name: str) -> None:
    least, most = BODY[name].min_value, BODY[name].max_value
    assert [is_accepted(name, value) for value in (least - 1, least, most, most + 1)] == [False, True, True, False]


def test_the_bounds_of_a_fraction_are_those_of_the_parser() -> None:
    (name,) = fields(serializers.FloatField)
    least, most = BODY[name].min_value, BODY[name].max_value
    assert [is_accepted(name, value) for value in (least / 2, least, most, most * 2)] == [False, True, True, False]


@pytest.mark.parametrize("name", fields(serializers.CharField))
def test_the_length_of_a_text_is_that_of_the_parser(name: str) -> None:
    most = BODY[name].max_length
    start = "/" if name == "output_path" else ""
    assert is_accepted(name, f"{start}{'a' * (most - len(start))}")
    assert not is_accepted(name, f"{start}{'a' * (most + 1 - len(start))}")


@pytest.mark.parametrize("name", KNOWN_FIELDS)
def test_null_is_accepted_where_the_page_says_so(name: str) -> None:
    accepts_nothing = {"parameters"}  # null: not parametric
    if name not in accepts_nothing:
        assert is_accepted(name, None) == BODY[name].allow_null


@pytest.mark.parametrize("name", fields(serializers.ChoiceField))
def test_the_choices_are_those_of_the_parser(name: str) -> None:
    assert all(is_accepted(name, choice) for choice in BODY[name].choices)
    assert not is_accepted(name, "other")


def test_a_row_has_attributes_option_bounds_and_default() -> None:
    text = sections()
    assert "| `memory_mb` | `Memory`, `MemoryMB` | `--memory` | whole number, 0 to 2000000000 | MB | `0` | Of" in text
    assert "| `executable` | `Executable` | `--executable` | text, at most 1024 characters |  | required | Prog" in text
    assert "`ParameterStart`" in text
