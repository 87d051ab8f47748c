"""Shares corrected by usage (docs/architecture.md, Priorities)."""

from datetime import timedelta
from math import fsum, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueues.domain.history import HALF_LIFE, correct_shares, decayed

amounts = st.just(0.0) | st.floats(1e-6, 1e12)
groups = st.dictionaries(st.integers(1, 9), st.tuples(amounts, amounts), max_size=8)


def corrected(*, shares: dict[int, float], used_s: dict[int, float]) -> dict[int, float]:
    return {group: share.corrected for group, share in correct_shares(shares, used_s=used_s).items()}


@given(groups)
def test_corrected_shares_add_up_to_the_configured_ones(said: dict[int, tuple[float, float]]) -> None:
    shares = {group: share for group, (share, _) in said.items()}
    found = corrected(shares=shares, used_s={group: used for group, (_, used) in said.items()})
    assert isclose(fsum(found.values()), fsum(shares.values()), rel_tol=1e-9)


@given(groups)
def test_of_two_groups_neither_gains_more_than_nine_times_on_the_other(said: dict[int, tuple[float, float]]) -> None:
    found = correct_shares(
        {g: share for g, (share, _) in said.items()}, used_s={g: used for g, (_, used) in said.items()}
    )
    assert all(1 / 3 <= share.factor <= 3 for share in found.values())
    assert len({share.normalization for share in found.values()}) <= 1


@given(groups, st.floats(1e-3, 1e3))
def test_only_the_proportions_of_what_was_used_count(said: dict[int, tuple[float, float]], scale: float) -> None:
    """So it does not matter how long ago it was decayed, as long as all of it was decayed together."""
    shares = {group: share for group, (share, _) in said.items()}
    used_s = {group: used for group, (_, used) in said.items()}
    one = corrected(shares=shares, used_s=used_s)
    other = corrected(shares=shares, used_s={group: used * scale for group, used in used_s.items()})
    assert all(isclose(one[group], other[group], rel_tol=1e-6) for group in shares)


def test_every_factor_is_returned() -> None:
    # Half of the VO expected, four fifths used: 5/8. The other: 1/2 to 1/5, 5/2.
    one, other = correct_shares({1: 50.0, 2: 50.0}, used_s={1: 80.0, 2: 20.0}).values()
    assert (one.expected, one.used, one.ratio, one.factor) == (0.5, 0.8, 0.625, 0.625)
    assert (other.expected, other.used, other.ratio, other.factor) == (0.5, 0.2, 2.5, 2.5)
    assert one.normalization == other.normalization == 100 / (50 * 0.625 + 50 * 2.5)
    assert [one.corrected, other.corrected] == pytest.approx([20.0, 80.0])


def test_a_factor_is_clipped_to_three_and_a_third() -> None:
    greedy, modest = correct_shares({1: 10.0, 2: 90.0}, used_s={1: 99.0, 2: 1.0}).values()
    assert [greedy.ratio, greedy.factor] == pytest.approx([0.1 / 0.99, 1 / 3])
    assert [modest.ratio, modest.factor] == pytest.approx([90.0, 3.0])


def test_a_group_without_usage_gets_the_largest_factor() -> None:
    idle, busy = correct_shares({1: 1.0, 2: 1.0}, used_s={2: 5.0}).values()
    assert (idle.used, idle.ratio, idle.factor) == (0.0, None, 3.0)
    assert idle.corrected > busy.corrected


def test_without_any_usage_no_share_is_corrected() -> None:
    shares = correct_shares({1: 1.0, 2: 3.0}, used_s={})
    assert [(share.used, share.ratio, share.factor, share.corrected) for share in shares.values()] == [
        (None, None, 1.0, 1.0),
        (None, None, 1.0, 3.0),
    ]


def test_a_group_of_share_zero_gets_nothing_however_little_it_used() -> None:
    nothing, all_ = correct_shares({1: 0.0, 2: 7.0}, used_s={2: 5.0}).values()
    assert (nothing.corrected, all_.corrected) == (0.0, 7.0)
    assert corrected(shares={1: 0.0}, used_s={1: 5.0}) == {1: 0.0}


def test_usage_of_three_days_ago_counts_half() -> None:
    assert decayed(8.0, after=HALF_LIFE) == 4.0
    assert decayed(8.0, after=3 * timedelta(days=3)) == 1.0
    assert decayed(8.0, after=timedelta()) == 8.0
    assert decayed(8.0, after=timedelta(days=36500)) == 0.0
