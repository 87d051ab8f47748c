"""Ids of leases begin with the time, and are UUIDs of version 7."""

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from matching.services.claim import RANDOM_BITS, lease_id

#: Such a time, and the millisecond after it, have 48 bits.
TIMES_MS = st.integers(0, 2**48 - 2)
CHANCES = st.integers(0, 2**RANDOM_BITS - 1)


@given(TIMES_MS, CHANCES)
def test_ids_of_leases_begin_with_the_time(time_ms: int, chance: int) -> None:
    made = lease_id(time_ms=time_ms, chance=chance)
    assert made.version == 7
    assert made.variant == RFC_4122
    assert made.int >> 80 == time_ms


@given(TIMES_MS, CHANCES, CHANCES)
def test_ids_of_leases_are_in_the_order_of_time(time_ms: int, chance: int, other: int) -> None:
    assert lease_id(time_ms=time_ms, chance=chance) < lease_id(time_ms=time_ms + 1, chance=other)


@given(TIMES_MS, CHANCES, CHANCES)
def test_ids_of_leases_of_one_moment_differ_as_their_random_numbers_do(time_ms: int, chance: int, other: int) -> None:
    ids: set[UUID] = {lease_id(time_ms=time_ms, chance=chance), lease_id(time_ms=time_ms, chance=other)}
    assert len(ids) == len({chance, other})
