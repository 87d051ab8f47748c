"""The threads that answer requests."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from typing import Final, TypeAlias

from django.db import connections

_logger = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], None]


class _Member:
    """One thread; *wake* is released when there is work for it."""

    __slots__ = ("wake", "work")

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work
        self.wake: Final = Lock()
        self.wake.acquire()


class Crew:
    """Threads that do pieces of work; among idle ones, the one that was busy last gets the next piece.

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
        #: The one that was busy last is the last one.
        self._idle: list[_Member] = []
        self._threads = 0
        #: Work for which no thread is free.
        self._waiting: deque[Work] = deque()

    def do(self, work: Work) -> None:
        """Let a thread do a piece of work as soon as one is free; an exception is logged."""
        with self._lock:
            if self._idle:
                member = self._idle.pop()
                member.work = work
                member.wake.release()
                return
            if self._threads == self._size:
                self._waiting.append(work)
                return
            self._threads += 1
        Thread(target=self._serve, args=(_Member(work),), name="answers", daemon=True).start()

    def _serve(self, member: _Member) -> None:
        try:
            while True:
                _do(member)
                if not self._gets_work(member):
                    return
        finally:
            connections.close_all()

    def _gets_work(self, member: _Member) -> bool:
        """Wait until the thread has the next piece of work; False: it had none for so long that it is to end."""
        with self._lock:
            if self._waiting:
                member.work = self._waiting.popleft()
                return True
            self._idle.append(member)
        if member.wake.acquire(timeout=self._idle_s):
            return True
        with self._lock:
            if member in self._idle:
                self._idle.remove(member)
                self._threads -= 1
                return False
        # It was given work at this very moment.
        return member.wake.acquire()


def _do(member: _Member) -> None:
    """Do the work of a thread, and keep nothing of it: what refers to a request keeps its connection open."""
    work, member.work = member.work, None
    try:
        if work is not None:
            work()
    except Exception:
        _logger.exception("A request failed.")
