"""Memoised lookups."""

from wms.kernel.memo import Memo, ReadBeforehand


def test_what_was_read_beforehand_is_not_asked_and_the_rest_is_asked_once() -> None:
    asked: list[str] = []

    def known(name: str) -> str:
        raise AssertionError(name)

    def unknown(name: str) -> str:
        asked.append(name)
        return name.upper()

    memo: Memo = {}
    answers = ReadBeforehand({known: lambda name: f"{name}!"}, memo)
    assert [answers.ask(known, "a"), answers.ask(unknown, "b"), answers.ask(unknown, "b")] == ["a!", "B", "B"]
    assert asked == ["b"]
    assert list(memo) == [(unknown, "b")]
