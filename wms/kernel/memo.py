"""Questions whose answers are remembered for a while, by whoever knows for how long they stay true."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Any, TypeAlias, TypeVar

AnswerT = TypeVar("AnswerT")

#: Answers by question and arguments.
Memo: TypeAlias = MutableMapping[Hashable, Any]

#: Then everything is forgotten: a bound on memory, not a rule that anybody should notice.
MAX_ANSWERS = 10_000


class Remembered:
    """Asks each question once for the same arguments, which are hashable; without a memo, each time."""

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo

    def ask(self, question: Callable[..., AnswerT], *arguments: Hashable) -> AnswerT:
        """Return ``question(*arguments)``."""
        if self._memo is None:
            return question(*arguments)
        key = (question, *arguments)
        try:
            known: AnswerT = self._memo[key]
        except KeyError:
            if len(self._memo) >= MAX_ANSWERS:
                self._memo.clear()
            known = self._memo[key] = question(*arguments)
        return known


class ReadBeforehand(Remembered):
    """Answers some questions from what was read for all of them at once; asks each of the others once.

    Args:
        answers: {question: what answers it in its place}.
        memo: of the others.
    """

    def __init__(self, answers: Mapping[Callable[..., Any], Callable[..., Any]], memo: Memo) -> None:
        super().__init__(memo)
        self._answers = answers

    def ask(self, question: Callable[..., AnswerT], *arguments: Hashable) -> AnswerT:
        """Return what ``question(*arguments)`` would."""
        answer: Callable[..., AnswerT] | None = self._answers.get(question)
        return super().ask(question, *arguments) if answer is None else answer(*arguments)


#: Asks each time.
FORGETFUL = Remembered()
