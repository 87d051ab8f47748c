"""Caches of a process; each has a bound, which docs/scale.md names (ADR 92)."""

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from threading import Lock
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import WeakSet

KeyT = TypeVar("KeyT", bound=Hashable)
ResultT = TypeVar("ResultT")


def _one(_key: object, _value: object) -> int:
    return 1


class RecentlyUsed(Generic[KeyT, ResultT]):
    """What this process has used lately; threads share it.

    Where each key is used for minutes, a cache that drops only the oldest of a large number grows for hours, until it
    has that number; the memory of this one follows what is in use. There are two generations: what is used moves to the
    newer one, which becomes the older one when it has half of the bound or is old enough; the older one is dropped.

    Args:
        most: sum of the sizes of all values, half of it for each generation.
        unused_s: seconds after which an unused value is dropped; at the latest after twice as long, if others are kept.
        size_of: size of a key and its value; each counts as 1 by default.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        *,
        most: int,
        unused_s: float,
        size_of: Callable[[KeyT, ResultT], int] = _one,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._most = most
        self._unused_s = unused_s
        self._size_of = size_of
        self._clock = clock
        self._lock = Lock()
        self._newer: dict[KeyT, ResultT] = {}
        self._older: dict[KeyT, ResultT] = {}
        #: Of the newer generation.
        self._size, self._begun_at = 0, clock()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: KeyT) -> ResultT | None:
        """Return the value; None: it is not kept, or no longer."""
        value = self._newer.get(key)
        if value is not None:
            return value
        older = self._older.get(key)
        if older is not None:
            self.keep(key, older)
        return older

    def recall(self, key: KeyT, make: Callable[[], ResultT]) -> ResultT:
        """Return the value, which is made and kept if it is not kept yet; two threads may both make it."""
        value = self.get(key)
        if value is None:
            value = make()
            self.keep(key, value)
        return value

    def keep(self, key: KeyT, value: ResultT) -> None:
        """Keep a value, which is not None; one larger than a generation is not kept."""
        size = self._size_of(key, value)
        if size > self._most // 2:
            return
        with self._lock:
            now = self._clock()
            if (before := self._newer.pop(key, None)) is not None:
                self._size -= self._size_of(key, before)
            if self._size + size > self._most // 2 or now - self._begun_at > self._unused_s:
                self._older, self._newer = self._newer, {}
                self._size, self._begun_at = 0, now
            self._older.pop(key, None)
            self._newer[key] = value
            self._size += size

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._newer, self._older = {}, {}
            self._size, self._begun_at = 0, self._clock()


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


def state_of(memo: Memo) -> object:
    """Return what stands for this memo in a key of another cache: as hashable, and without what the memo holds."""
    return CachedLookups(memo).get(object)


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
        most: results; the cache is emptied when there are more.
    """

    def __init__(self, kept_s: float, *, most: int = MAX_ENTRIES) -> None:
        self._kept_s = kept_s
        self._most = most
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
        if len(self._results) >= self._most:
            self.forget()

    def forget(self) -> None:
        """Drop all results."""
        self._results = {}


_brief_memos: Final[WeakSet[BriefMemo[Any]]] = WeakSet()


def forget_brief_results() -> None:
    """Drop the results of every BriefMemo of this process: for tests, each of which has rows of its own."""
    for memo in _brief_memos:
        memo.forget()
