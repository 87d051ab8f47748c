"""Samples of usage as they are read from their numbers."""

import pytest

from wms.jobs.domain.samples import FREE, Sample, samples_of


@pytest.mark.parametrize("room", [0, 1, 7])
def test_unused_space_for_samples_is_not_read(room: int) -> None:
    numbers = [3 * 1024 + 171, 7_217, -1, 0, *[FREE] * 4 * room]
    assert samples_of(numbers, step_s=30) == [Sample(at_s=96, cpu_s=90, memory_mb=None, disk_mb=0)]


def test_an_attempt_without_samples_has_none() -> None:
    assert samples_of([], step_s=30) == samples_of([FREE] * 24, step_s=30) == []
