"""Memoised lookups."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from wms.kernel import memo as module
from wms.kernel.memo import BriefMemo, Memo, PreloadedLookups, RecentlyUsed, forget_brief_results, state_of


def test_preloaded_lookups_are_not_repeated() -> None:
    calls: list[str] = []

    def preloaded(name: str) -> str:
        raise AssertionError(name)

    def other(name: str) -> str:
        calls.append(name)
        return name.upper()

    memo: Memo = {}
    lookups = PreloadedLookups({preloaded: lambda name: f"{name}!"}, memo)
    assert [lookups.get(preloaded, "a"), lookups.get(other, "b"), lookups.get(other, "b")] == ["a!", "B", "B"]
    assert calls == ["b"]
    assert list(memo) == [(other, "b")]


def test_a_brief_memo_is_computed_again_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    made: list[str] = []
    brief: BriefMemo[int] = BriefMemo(kept_s=5)

    def get(key: str) -> int:
        def make() -> int:
            made.append(key)
            return len(made)

        return brief.get(key, make)

    assert [get("a"), get("a"), get("b")] == [1, 1, 2]
    now = 104.9
    assert get("a") == 1
    now = 105.1
    assert [get("a"), get("b")] == [3, 4]
    assert made == ["a", "b", "a", "b"]
    now = 111.0
    get("c")
    assert list(brief._results) == ["c"]
    forget_brief_results()
    assert get("c") == 6


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestRecentlyUsed:
    """A cache whose memory follows what is in use."""

    def test_ever_new_keys_do_not_exceed_the_bound(self) -> None:
        recent: RecentlyUsed[int, str] = RecentlyUsed(most=100, unused_s=60)
        largest = 0
        for key in range(3000):
            recent.keep(key, "x")
            largest = max(largest, len(recent))
        assert largest == 100
        assert recent.get(2999) == "x"
        assert recent.get(0) is None

    def test_what_is_used_stays_and_the_rest_is_dropped_after_its_time(self) -> None:
        clock = _Clock()
        recent: RecentlyUsed[int, str] = RecentlyUsed(most=100_000, unused_s=60, clock=clock)
        recent.keep(-1, "in use")
        sizes = []
        # One new key a second, each used once: as of jobs that end.
        for second in range(1000):
            clock.now = float(second)
            recent.keep(second, "x")
            assert recent.get(-1) == "in use"
            sizes.append(len(recent))
        assert max(sizes[:130]) == max(sizes[130:]) <= 2 * 61 + 1

    def test_sizes_count_instead_of_entries(self) -> None:
        recent: RecentlyUsed[int, bytes] = RecentlyUsed(most=1000, unused_s=60, size_of=lambda _, value: len(value))
        for key in range(100):
            recent.keep(key, b"x" * (100 + key))
            assert sum(len(value) for key in range(100) if (value := recent._newer.get(key, b""))) <= 500
            assert sum(len(value) for key in range(100) if (value := recent._older.get(key, b""))) <= 500
        recent.keep(1000, b"x" * 501)
        assert recent.get(1000) is None
        assert recent.recall(1001, lambda: b"x" * 501) == b"x" * 501

    def test_a_value_that_is_kept_again_counts_once(self) -> None:
        recent: RecentlyUsed[str, bool] = RecentlyUsed(most=10, unused_s=60)
        recent.keep("other", value=True)
        for _ in range(100):
            recent.keep("same", value=True)
        assert recent.get("other")
        assert len(recent) == 2

    def test_threads_share_it(self) -> None:
        recent: RecentlyUsed[int, int] = RecentlyUsed(most=64, unused_s=60)

        def use(begin: int) -> int:
            return sum(
                recent.recall(key % 100, partial(int, key % 100)) == key % 100 for key in range(begin, begin + 3000)
            )

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(use, range(8))) == [3000] * 8
        assert len(recent) <= 64


def test_a_brief_memo_has_at_most_so_many_results() -> None:
    brief: BriefMemo[int] = BriefMemo(kept_s=60, most=50)
    sizes = []
    for key in range(500):
        brief.get(key, lambda: 1)
        sizes.append(len(brief._results))
    assert max(sizes) == 50


def test_another_memo_has_another_state() -> None:
    memo: Memo = {}
    state = state_of(memo)
    assert state_of(memo) is state
    assert state_of({}) is not state
