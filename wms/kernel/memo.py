"""Memoised lookups; the caller owns the cache and its lifetime."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Any, TypeAlias, TypeVar

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

    def __init__(self, preloaded: Mapping[Callable[..., Any], Callable[..., Any]], memo: Memo) -> None:
        super().__init__(memo)
        self._preloaded = preloaded

    def get(self, function: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return the result of ``function(*arguments)``."""
        replacement: Callable[..., ResultT] | None = self._preloaded.get(function)
        return super().get(function, *arguments) if replacement is None else replacement(*arguments)


#: Has no cache.
UNCACHED = CachedLookups()
