"""Memoised lookups."""

import pytest

from wms.kernel import memo as module
from wms.kernel.memo import BriefMemo, Memo, PreloadedLookups, forget_brief_results


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
