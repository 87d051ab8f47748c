"""Real connections side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
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
