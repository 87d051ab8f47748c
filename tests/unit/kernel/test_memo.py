"""Memoised lookups."""

from wms.kernel.memo import Memo, PreloadedLookups


def test_what_was_read_beforehand_is_not_asked_and_the_rest_is_asked_once() -> None:
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
