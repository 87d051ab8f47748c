"""A pool of threads that answer requests."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Thread
from typing import Final, TypeAlias

from django.db import connections

_logger = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], None]


@contextmanager
def logged(message: str, *about: object, then: Callable[[], None] | None = None) -> Iterator[None]:
    """Log an exception, which granian or the end of a thread would hide, and call *then*."""
    try:
        yield
    except Exception:
        _logger.exception(message, *about)
        if then is not None:
            then()


class _PoolThread:
    """One thread of the pool; *wake* is released when there is work for it."""

    __slots__ = ("wake", "work")

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work
        self.wake: Final = Lock()
        self.wake.acquire()


class ThreadPool:
    """Threads that run pieces of work; of the idle ones, the most recently used gets the next piece.

    Each thread has a connection to the database, whose server process has plans and caches of its own. In this order as
    few of them as possible are in use, so that their memory is in the caches of the processor.

    Args:
        size: threads at most; they are started when they are needed.
        idle_s: seconds without work after which a thread ends, and its connection is closed.
    """

    def __init__(self, size: int, *, idle_s: float) -> None:
        self._size = size
        self._idle_s = idle_s
        self._lock = Lock()
        #: The most recently used thread is the last one.
        self._idle: list[_PoolThread] = []
        self._threads = 0
        #: Work for which no thread is free.
        self._waiting: deque[Work] = deque()

    def submit(self, work: Work) -> None:
        """Run a piece of work in a thread as soon as one is free; an exception is logged."""
        with self._lock:
            if self._idle:
                thread = self._idle.pop()
                thread.work = work
                thread.wake.release()
                return
            if self._threads == self._size:
                self._waiting.append(work)
                return
            self._threads += 1
        Thread(target=self._serve, args=(_PoolThread(work),), name="answers", daemon=True).start()

    def _serve(self, thread: _PoolThread) -> None:
        try:
            while True:
                _run(thread)
                if not self._wait_for_work(thread):
                    return
        finally:
            connections.close_all()

    def _wait_for_work(self, thread: _PoolThread) -> bool:
        """Wait for the next piece of work; False: there was none for so long that the thread is to end."""
        with self._lock:
            if self._waiting:
                thread.work = self._waiting.popleft()
                return True
            self._idle.append(thread)
        if thread.wake.acquire(timeout=self._idle_s):
            return True
        with self._lock:
            if thread in self._idle:
                self._idle.remove(thread)
                self._threads -= 1
                return False
        # It got work in this moment.
        return thread.wake.acquire()


class PoolShare:
    """A part of a pool: work of one kind, which gets at most so many of its threads at once, and one for each caller.

    Args:
        pool: whose threads do the work.
        size: threads at most.
    """

    def __init__(self, pool: ThreadPool, *, size: int) -> None:
        self._pool = pool
        self._size = size
        self._lock = Lock()
        #: Callers of work under way; nobody's work, which is of no caller, any number of times.
        self._busy: Counter[str] = Counter()
        self._waiting: deque[tuple[str, Work]] = deque()

    def submit(self, work: Work, *, caller: str = "") -> None:
        """Run a piece of work as soon as the share, the pool and its caller have a thread; an exception is logged.

        Args:
            work: to be done.
            caller: whose it is; empty: nobody's, who may have all threads of the share.
        """
        with self._lock:
            if not self._is_free_for(caller):
                self._waiting.append((caller, work))
                return
            self._busy[caller] += 1
        self._pool.submit(partial(self._serve, caller, work))

    def _is_free_for(self, caller: str) -> bool:
        return self._busy.total() < self._size and not (caller and self._busy[caller])

    def _serve(self, caller: str, work: Work) -> None:
        with logged("A request failed."):
            work()
        with self._lock:
            self._busy -= Counter({caller: 1})  # leaves out what is 0
            following = next((each for each in self._waiting if self._is_free_for(each[0])), None)
            if following is None:
                return
            self._waiting.remove(following)
            self._busy[following[0]] += 1
        # Behind work that waits for the pool: this share may hold no thread that others need.
        self._pool.submit(partial(self._serve, *following))


def _run(thread: _PoolThread) -> None:
    """Run the work of a thread and drop it: a reference to a request would keep its connection open."""
    work, thread.work = thread.work, None
    if work is not None:
        with logged("A request failed."):
            work()
