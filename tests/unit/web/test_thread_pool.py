"""The threads that answer requests."""

import logging
import threading
import weakref
from functools import partial
from queue import Queue

import pytest

from tests.pace import wait_for, within
from wms.web.thread_pool import PoolShare, ThreadPool


def thread_of(pool: ThreadPool) -> threading.Thread:
    """Return the thread that does a piece of work."""
    threads: Queue[threading.Thread] = Queue()
    pool.submit(lambda: threads.put(threading.current_thread()))
    return threads.get(timeout=within(10))


def has_idle(pool: ThreadPool, number: int) -> bool:
    return len(pool._idle) == number


def occupy(pool: ThreadPool) -> tuple[threading.Thread, threading.Event]:
    """Occupy a thread until the event is set."""
    release, threads = threading.Event(), Queue[threading.Thread]()

    def work() -> None:
        threads.put(threading.current_thread())
        release.wait(timeout=within(60))

    pool.submit(work)
    return threads.get(timeout=within(10)), release


def test_the_most_recently_used_thread_gets_the_next_work() -> None:
    pool = ThreadPool(3, idle_s=600)
    occupied = [occupy(pool) for _ in range(3)]
    for idle, number in enumerate((1, 2, 0), start=1):
        thread, release = occupied[number]
        release.set()
        wait_for(partial(has_idle, pool, idle), every_s=0.01)
        for _ in range(20):
            assert thread_of(pool) is thread
            wait_for(partial(has_idle, pool, idle), every_s=0.001)


def test_no_more_threads_than_allowed_and_the_rest_waits_in_its_order() -> None:
    pool, done = ThreadPool(2, idle_s=600), Queue[int]()
    (_, first), (_, second) = occupy(pool), occupy(pool)
    for number in range(100):
        pool.submit(partial(done.put, number))
    assert done.empty()
    first.set()
    assert [done.get(timeout=within(10)) for _ in range(100)] == list(range(100))
    second.set()


def test_a_failure_is_logged_and_the_thread_continues(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    pool = ThreadPool(1, idle_s=600)
    with caplog.at_level(logging.ERROR):
        pool.submit(fail)
        assert thread_of(pool).is_alive()
    assert "no such thing" in caplog.text


def test_an_idle_thread_ends_and_another_one_is_started_when_there_is_work() -> None:
    pool = ThreadPool(1, idle_s=0.01)
    thread = thread_of(pool)
    thread.join(timeout=within(10))
    assert not thread.is_alive()
    assert thread_of(pool) is not thread


def test_no_work_is_lost_while_threads_end() -> None:
    pool, done = ThreadPool(3, idle_s=0.0005), Queue[int]()
    pause = threading.Event()
    for number in range(3000):
        pool.submit(partial(done.put, number))
        if number % 3 == 0:
            pause.wait(0.0005)
    assert sorted(done.get(timeout=within(10)) for _ in range(3000)) == list(range(3000))


def test_finished_work_is_not_referenced() -> None:
    """A reference to a request keeps its connection open, even if its body is not read."""

    class Request:
        def answer(self) -> None:
            pass

    pool, request = ThreadPool(1, idle_s=600), Request()
    kept = weakref.ref(request)
    pool.submit(request.answer)
    del request
    wait_for(lambda: kept() is None, every_s=0.01)


def test_a_share_of_a_pool_leaves_threads_to_others() -> None:
    pool, done = ThreadPool(3, idle_s=600), Queue[str]()
    share = PoolShare(pool, size=2)
    release = threading.Event()

    def work(name: str) -> None:
        done.put(f"{name} began")
        release.wait(timeout=within(60))
        done.put(f"{name} ended")

    for name in ("first", "second", "third"):
        share.submit(partial(work, name))
    assert {done.get(timeout=within(10)) for _ in range(2)} == {"first began", "second began"}
    for number in range(20):
        pool.submit(partial(done.put, f"other {number}"))
    assert [done.get(timeout=within(10)) for _ in range(20)] == [f"other {number}" for number in range(20)]
    release.set()
    rest = {done.get(timeout=within(10)) for _ in range(4)}
    assert rest == {"first ended", "second ended", "third began", "third ended"}
    share.submit(partial(done.put, "later"))
    assert done.get(timeout=within(10)) == "later"


def test_a_caller_has_one_thread_of_the_share_and_keeps_no_other_from_theirs() -> None:
    pool, done, release = ThreadPool(8, idle_s=600), Queue[str](), threading.Event()
    share = PoolShare(pool, size=3)

    def work(name: str) -> None:
        done.put(name)
        release.wait(timeout=within(60))

    for number in range(5):
        share.submit(partial(work, f"alice {number}"), caller="alice")
    for name in ("bob", "carol", "dave"):
        share.submit(partial(work, name), caller=name)
    assert {done.get(timeout=within(10)) for _ in range(3)} == {"alice 0", "bob", "carol"}
    release.set()
    rest = [done.get(timeout=within(10)) for _ in range(5)]
    assert [name for name in rest if name != "dave"] == [f"alice {number}" for number in range(1, 5)]


def test_a_failure_frees_the_share(caplog: pytest.LogCaptureFixture) -> None:
    pool, done = ThreadPool(2, idle_s=600), Queue[str]()
    share = PoolShare(pool, size=1)

    def fail() -> None:
        raise ValueError("planted")

    share.submit(fail)
    share.submit(partial(done.put, "next"))
    assert done.get(timeout=within(10)) == "next"
    assert "A request failed." in caplog.text
