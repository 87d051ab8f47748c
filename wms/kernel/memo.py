"""Memoised lookups; the caller owns the cache and its lifetime."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Any, TypeAlias, TypeVar

AnswerT = TypeVar("AnswerT")

#: Answers by question and arguments.
Memo: TypeAlias = MutableMapping[Hashable, Any]

#: Entries: the cache is emptied when it is full, to bound its memory.
MAX_ANSWERS = 10_000


class Remembered:
    """Calls each function once for the same hashable arguments; without a memo, each time."""

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo

    def ask(self, question: Callable[..., AnswerT], *arguments: Hashable) -> AnswerT:
        """Return ``question(*arguments)``."""
        if self._memo is None:
            return question(*arguments)
        key = (question, *arguments)
        try:
            answer: AnswerT = self._memo[key]
        except KeyError:
            if len(self._memo) >= MAX_ANSWERS:
                self._memo.clear()
            answer = self._memo[key] = question(*arguments)
        return answer


class ReadBeforehand(Remembered):
    """Answers some functions from data read in advance; calls each of the others once.

    Args:
        answers: {function: its replacement}.
        memo: the cache of the others.
    """

    def __init__(self, answers: Mapping[Callable[..., Any], Callable[..., Any]], memo: Memo) -> None:
        super().__init__(memo)
        self._answers = answers

    def ask(self, question: Callable[..., AnswerT], *arguments: Hashable) -> AnswerT:
        """Return the value of ``question(*arguments)``."""
        answer: Callable[..., AnswerT] | None = self._answers.get(question)
        return super().ask(question, *arguments) if answer is None else answer(*arguments)


#: Has no cache.
FORGETFUL = Remembered()
