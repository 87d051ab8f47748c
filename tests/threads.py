"""Real connections side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Event
from typing import TypeVar

from django.db import connection

Answer = TypeVar("Answer")


def at_once(works: Sequence[Callable[[], Answer]], *, timeout_s: float = 120) -> list[Answer]:
    """Run each work in a thread with a connection of its own, all starting together; return the answers in order."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Answer]) -> Answer:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=timeout_s)
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
        return [future.result(timeout=timeout_s) for future in futures]


def until_somebody_waits_for_a_lock(*, or_done: "Future[object] | None" = None) -> None:
    """Return when a connection to this test's database waits for a lock, or when the work is done."""
    pause = Event()
    for _ in range(3000):
        if (or_done is not None and or_done.done()) or _somebody_waits():
            return
        pause.wait(0.01)
    raise AssertionError("nobody waits for a lock")


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        # NB: inside of a transaction the view stays as it was first seen. It is asked for this database, for the
        # workers of the tests share a server.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
