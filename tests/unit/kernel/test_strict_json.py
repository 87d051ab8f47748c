"""JSON is accepted if PostgreSQL can store it, and refused with a sentence otherwise."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.kernel.rest import InvalidJSONError, load_json

storable_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))
storable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable_text,
    lambda inner: st.lists(inner) | st.dictionaries(storable_text, inner),
)


@given(value=storable, escaped=st.booleans())
def test_storable_json_is_read_unchanged(value: object, escaped: bool) -> None:
    assert load_json(json.dumps(value, ensure_ascii=escaped).encode()) == value


@given(text=st.binary())
def test_whatever_arrives_is_read_or_is_one_clear_error(text: bytes) -> None:
    with suppress(InvalidJSONError):
        load_json(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "The body is not valid JSON: Expecting value at line 1, column 1."),
        (b'{"a":\n nul}', "The body is not valid JSON: Expecting value at line 2, column 2."),
        (b"{} {}", "The body is not valid JSON: Extra data at line 1, column 4."),
        (b'"a\xff"', "The body is not UTF-8: byte 3 is wrong."),
        (b"[NaN]", "NaN is not valid JSON; leave the field out or send a number."),
        (b"-Infinity", "-Infinity is not valid JSON; leave the field out or send a number."),
        (b"1e400", "The number 1e400 is too large: numbers stay below 1.8e308."),
        (b"9223372036854775808", "The integer 9223372036854775808 is too large: integers have at most 63 bits."),
        (b'{"a": 1, "b": 2, "a": 3}', 'The name "a" occurs twice in one object; keep one of them.'),
        (b'["a\\u0000b"]', "A string holds the NUL character (\\u0000), which cannot be stored."),
        (b'{"\\u0000": 1}', "A string holds the NUL character (\\u0000), which cannot be stored."),
    ],
)
def test_json_errors_have_their_position(text: bytes, sentence: str) -> None:
    with pytest.raises(InvalidJSONError) as refusal:
        load_json(text)
    assert refusal.value.detail == sentence


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\uDBff"', b'"\\udc00 \\ud800"', b'{"\\udfff": 1}'])
def test_half_of_a_surrogate_pair_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidJSONError, match="surrogate"):
        load_json(text)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert load_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize("digits", [b"9" * 5_000_000, b"-" + b"1" * 5_000_000])
def test_an_integer_of_millions_of_digits_is_refused_at_once(digits: bytes) -> None:
    with pytest.raises(InvalidJSONError, match="too large"):
        load_json(digits)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize(("inner", "levels"), [(b"1", 100), (b"[]", 99)])
def test_a_hundred_levels_are_read(opening: bytes, closing: bytes, inner: bytes, levels: int) -> None:
    load_json(opening * levels + inner + closing * levels)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize(("inner", "levels"), [(b"1", 101), (b"[]", 100), (b"1", 100_000)])
def test_deeper_nesting_is_refused(opening: bytes, closing: bytes, inner: bytes, levels: int) -> None:
    with pytest.raises(InvalidJSONError, match="deeper than 100 levels"):
        load_json(opening * levels + inner + closing * levels)


def test_nesting_that_is_never_closed_is_refused() -> None:
    with pytest.raises(InvalidJSONError):
        load_json(b"[" * 1_000_000)


def test_many_sibling_containers_are_not_nested() -> None:
    assert load_json(b"[" + b",".join([b"[]"] * 1000) + b"]") == [[]] * 1000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (rb'"\u0000"', "body"),
        (rb'{"a": "b", "c": "\u0000"}', "c"),
        (rb'{"jobs": [{"executable": "a"}, {"environment": {"A": "\ud800"}}]}', "jobs.1.environment.A"),
        (rb'{"jobs": [{"\ud800": 1}]}', "jobs.0"),
        (rb'{"\u0000": 1}', "body"),
    ],
)
def test_unstorable_values_are_named_by_their_position(text: bytes, place: str) -> None:
    with pytest.raises(InvalidJSONError) as caught:
        load_json(text)
    assert list(caught.value.errors) == [place]
