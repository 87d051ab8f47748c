"""Looks at the database while a benchmark measures, in a thread of its own: no answer to a pilot waits for one."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from django.db import connections


class Watch:
    """Begins something, and looks again and again until it is over; within ``with``.

    Args:
        begin: what is done first.
        is_over: the look.
        every_s: seconds between two looks.
    """

    def __init__(self, begin: Callable[[], None], is_over: Callable[[], bool], *, every_s: float) -> None:
        self._begin, self._is_over, self._every_s = begin, is_over, every_s
        self._thread, self._stopped = Thread(target=self._look, daemon=True), Event()

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join()

    @property
    def goes_on(self) -> bool:
        """Whether it is not over."""
        return self._thread.is_alive()

    def _look(self) -> None:
        try:
            self._begin()
            while not self._stopped.wait(self._every_s) and not self._is_over():
                pass
        finally:
            connections.close_all()
