"""Times and sizes with their units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.portal.forms.quantities import DURATION, SIZE, Quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24 h", 86400), ("90 min", 5400), ("90m", 5400), ("1 h 30 min", 5400), ("1.5 h", 5400), (".5h", 1800),
        ("500 s", 500), ("500 seconds", 500), ("2 d", 172800), ("12", 43200), (" 12 ", 43200), ("0", 0),
        ("0.0001 h", 1), ("1 Day", 86400),
    ],
)  # fmt: skip
def test_times_are_read_with_their_units_and_plain_numbers_as_hours(text: str, seconds: int) -> None:
    assert DURATION.parsed(text) == seconds


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("2 GB", 2000), ("2", 2000), ("500 MB", 500), ("1.5 GB", 1500), ("1 TB", 1_000_000), ("1 GiB", 1074)],
)
def test_sizes_are_read_with_their_units_and_plain_numbers_as_gigabytes(text: str, megabytes: int) -> None:
    assert SIZE.parsed(text) == megabytes


@pytest.mark.parametrize(
    ("quantity", "text", "sentence"),
    [
        (DURATION, "86400", "86400 without a unit would be hours; write 86400 s, or 24 h or 90 min."),
        (SIZE, "4000", "4000 without a unit would be gigabytes; write 4000 MB, or 2 GB or 500 MB."),
        (DURATION, "1 30", "Each number needs a unit"),
        (DURATION, "3 weeks", '"weeks" is not a unit'),
        (DURATION, "-1", "Write a number and a unit"),
        (DURATION, "1,5 h", "Write a number and a unit"),
        (DURATION, "h", "Write a number and a unit"),
        (DURATION, "", "Write a number and a unit"),
        (DURATION, "1 h " * 100, "Write a number and a unit"),
        (SIZE, "1e9", '"e" is not a unit'),
    ],
)
def test_an_invalid_quantity_is_refused_with_a_remedy(quantity: Quantity, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        quantity.parsed(text)


@given(st.sampled_from([DURATION, SIZE]), st.integers(1, 2**31))
def test_a_written_quantity_is_read_back_equal(quantity: Quantity, value: int) -> None:
    assert quantity.parsed(quantity.written(value)) == value


@pytest.mark.parametrize(
    ("quantity", "value", "text"),
    [
        (DURATION, 43200, "12 h"), (DURATION, 86400, "24 h"), (DURATION, 5400, "90 min"), (DURATION, 500, "500 s"),
        (SIZE, 2000, "2 GB"), (SIZE, 2500, "2.5 GB"), (SIZE, 10_000, "10 GB"), (SIZE, 4096, "4096 MB"),
        (SIZE, 500, "500 MB"),
    ],
)  # fmt: skip
def test_values_are_written_in_the_unit_that_keeps_them_short(quantity: Quantity, value: int, text: str) -> None:
    assert quantity.written(value) == text
