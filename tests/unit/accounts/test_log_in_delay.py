"""The delay after failed log-ins: the number of failures that starts it, and its duration."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.accounts.domain import FAILURE_WINDOW, Failure, delayed_until

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def failures(count: int, *, name: bool, address: bool, seconds_ago: float = 0) -> list[Failure]:
    failed_at = NOW - timedelta(seconds=seconds_ago)
    return [Failure(failed_at=failed_at, same_name=name, same_address=address)] * count


@pytest.mark.parametrize(
    ("found", "delayed"),
    [
        ([], False),
        (failures(9, name=True, address=True), False),
        (failures(10, name=True, address=True), True),
        (failures(10_000, name=True, address=False), False),  # from elsewhere: nobody is locked out by others
        (failures(99, name=False, address=True), False),
        (failures(999, name=False, address=True), False),  # guesses at other names
        (failures(1000, name=False, address=True), True),
        (failures(98, name=False, address=True) + failures(3, name=True, address=True), True),
        (failures(98, name=False, address=True) + failures(2, name=True, address=True), False),
        (failures(95, name=True, address=False) + failures(5, name=True, address=True), True),
        (failures(97, name=True, address=False) + failures(2, name=True, address=True), False),
        (failures(9, name=True, address=True) + failures(50, name=False, address=True), False),
        (failures(20, name=True, address=True, seconds_ago=300), False),
        (failures(20, name=True, address=True, seconds_ago=299), True),
    ],
)
def test_a_login_delay_starts_after_a_number_of_failures_within_five_minutes(
    found: Sequence[Failure], delayed: bool
) -> None:
    assert (delayed_until(found, now=NOW) is not None) is delayed


@pytest.mark.parametrize(("count", "delay_s"), [(10, 10), (11, 20), (12, 40), (14, 160), (15, 300), (500, 300)])
def test_each_further_failure_doubles_the_delay_since_the_newest(count: int, delay_s: int) -> None:
    found = failures(count, name=True, address=True, seconds_ago=5)
    assert delayed_until(found, now=NOW) == NOW - timedelta(seconds=5) + timedelta(seconds=delay_s)


@pytest.mark.parametrize(("count", "delay_s"), [(1000, 1), (1001, 2), (1002, 4), (1003, 5), (5000, 5)])
def test_the_delay_of_an_address_is_seconds_only(count: int, delay_s: int) -> None:
    found = failures(count, name=False, address=True, seconds_ago=0)
    assert delayed_until(found, now=NOW) == NOW + timedelta(seconds=delay_s)


@given(
    st.lists(
        st.builds(
            Failure,
            failed_at=st.timedeltas(timedelta(minutes=-10), timedelta(0)).map(lambda ago: NOW + ago),
            same_name=st.booleans(),
            same_address=st.booleans(),
        ),
        max_size=300,
    )
)
def test_a_login_delay_ends_at_its_stated_time(found: list[Failure]) -> None:
    until = delayed_until(found, now=NOW)
    if until is not None:
        assert NOW < until <= NOW + FAILURE_WINDOW
        assert delayed_until(found, now=until) is None
