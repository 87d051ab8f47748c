"""Durations in words."""

import pytest

from wms.kernel.time_texts import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-0.01, "0 s"),
        (0.2303, "0.2 s"),
        (7, "7 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (7500, "2 h 05 min"),
        (7559, "2 h 05 min"),
        (86_400, "24 h"),
        (129_600, "36 h"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d"),
        (187_200, "2 d 04 h"),
        (100_000_000, "1,157 d 09 h"),
        (-300, "-5 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
