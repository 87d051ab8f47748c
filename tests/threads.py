"""Concurrent work on real connections."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from random import Random
from threading import Barrier, Event
from typing import Any, TypeVar

from django.db import connection

from tests.pace import wait_for, within

Answer = TypeVar("Answer")


def at_once(works: Sequence[Callable[[], Answer]], *, timeout_s: float = 120) -> list[Answer]:
    """Run each work in a thread with a connection of its own, all starting together; return the results in order."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Answer]) -> Answer:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=within(timeout_s))
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
        return [future.result(timeout=within(timeout_s)) for future in futures]


def repeat_at_once(steps: Sequence[Callable[[Random], None]], *, until: Callable[[int], bool]) -> None:
    """Repeat each step in a thread of its own, concurrently; the amount of work decides when they stop.

    Args:
        steps: the work of each thread; the argument is seeded by the thread's number.
        until: whether to stop; the argument is the least number of repetitions among the steps.
    """
    done = [0] * len(steps)
    failed = Event()

    def repeat(number: int) -> None:
        chance = Random(number)
        try:
            while not failed.is_set() and not until(min(done)):
                steps[number](chance)
                done[number] += 1
        except BaseException:
            failed.set()
            raise

    at_once([partial(repeat, number) for number in range(len(steps))], timeout_s=600)


def until_somebody_waits_for_a_lock(*, or_done: "Future[Any] | None" = None) -> None:
    """Return when a connection to this test's database waits for a lock, or when the work is done."""
    wait_for(
        lambda: (or_done is not None and or_done.done()) or _somebody_waits(),
        every_s=0.01,
        state=lambda: "nobody waits for a lock",
    )


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        # NB: inside of a transaction the view stays as it was first seen. It is asked for this database, for the
        # workers of the tests share a server.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
