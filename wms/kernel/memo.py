"""Memoised lookups; the caller owns the cache and its lifetime."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import WeakSet

ResultT = TypeVar("ResultT")

#: Results by function and arguments.
Memo: TypeAlias = MutableMapping[Hashable, Any]

#: Entries: the cache is emptied when it is full, to bound its memory.
MAX_ENTRIES = 10_000


class CachedLookups:
    """Calls each function once for the same hashable arguments; without a memo, each time."""

    def __init__(self, memo: Memo | None = None) -> None:
        self._memo = memo

    def get(self, function: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return ``function(*arguments)``."""
        if self._memo is None:
            return function(*arguments)
        key = (function, *arguments)
        try:
            result: ResultT = self._memo[key]
        except KeyError:
            if len(self._memo) >= MAX_ENTRIES:
                self._memo.clear()
            result = self._memo[key] = function(*arguments)
        return result


class PreloadedLookups(CachedLookups):
    """Replaces some functions by others, over data read in advance; calls each of the rest once.

    Args:
        preloaded: {function: its replacement}.
        memo: the cache of the rest.
    """

    def __init__(self, preloaded: Mapping[Callable[..., object], Callable[..., Any]], memo: Memo) -> None:
        super().__init__(memo)
        self._preloaded = preloaded

    def get(self, function: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return the result of ``function(*arguments)``."""
        replacement: Callable[..., ResultT] | None = self._preloaded.get(function)
        return super().get(function, *arguments) if replacement is None else replacement(*arguments)


#: Has no cache.
UNCACHED = CachedLookups()


class BriefMemo(Generic[ResultT]):
    """Results that this process keeps for some seconds, such as parts of pages that are the same for many users.

    Two threads may find the same result missing; both make it.

    Args:
        kept_s: seconds for which a result is used.
    """

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        #: (Time by the monotonic clock until which it is used, result).
        self._results: dict[Hashable, tuple[float, ResultT]] = {}
        self._cleared_at = monotonic()
        _brief_memos.add(self)

    def get(self, key: Hashable, make: Callable[[], ResultT]) -> ResultT:
        """Return the result of this key: what *make* returned some seconds ago, or returns now."""
        now = monotonic()
        known = self._results.get(key)
        if known is not None and known[0] > now:
            return known[1]
        made = make()
        self._make_room(now)
        self._results[key] = (now + self._kept_s, made)
        return made

    def _make_room(self, now: float) -> None:
        """Drop what has expired, from time to time; drop all when there is too much."""
        if now - self._cleared_at > self._kept_s:
            self._results = {key: value for key, value in self._results.copy().items() if value[0] > now}
            self._cleared_at = now
        if len(self._results) >= MAX_ENTRIES:
            self.forget()

    def forget(self) -> None:
        """Drop all results."""
        self._results = {}


_brief_memos: Final[WeakSet[BriefMemo[Any]]] = WeakSet()


def forget_brief_results() -> None:
    """Drop the results of every BriefMemo of this process: for tests, each of which has rows of its own."""
    for memo in _brief_memos:
        memo.forget()
