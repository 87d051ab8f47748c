"""CPU segments and memory steps (TQM)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueues.domain.definition import cpu_segment_s, in_steps

SEGMENTS = (500, 5000, 50000, 300000)
times = st.integers(0, 10**7)


@pytest.mark.parametrize(
    ("asked", "segment"),
    [(0, 500), (10, 500), (500, 500), (501, 5000), (5000, 5000), (50001, 300000), (300000, 300000), (300001, 300000)],
)
def test_cpu_time_is_rounded_up_to_the_next_segment_and_stays_at_the_last(asked: int, segment: int) -> None:
    assert cpu_segment_s(asked, segments_s=SEGMENTS) == segment


@given(times, times)
def test_segments_are_monotone(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert cpu_segment_s(low, segments_s=SEGMENTS) <= cpu_segment_s(high, segments_s=SEGMENTS)


@given(st.integers(0, 300000))
def test_a_segment_holds_every_time_up_to_the_last(asked: int) -> None:
    assert cpu_segment_s(asked, segments_s=SEGMENTS) >= asked


@pytest.mark.parametrize(("asked", "rounded"), [(0, 0), (1, 500), (500, 500), (1999, 2000), (2000, 2000), (2001, 2500)])
def test_memory_is_rounded_up_to_a_step_and_zero_means_no_requirement(asked: int, rounded: int) -> None:
    assert in_steps(asked, step=500) == rounded


@given(st.integers(0, 10**6), st.integers(1, 5000))
def test_rounded_memory_is_the_least_multiple_that_holds_it(asked: int, step: int) -> None:
    rounded = in_steps(asked, step=step)
    assert rounded % step == 0
    assert 0 <= rounded - asked < step
