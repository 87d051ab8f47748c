"""The threads that answer requests."""

import logging
import threading
import weakref
from functools import partial
from queue import Queue

import pytest

from tests.pace import wait_for, within
from wms.web.crew import Crew


def thread_of(crew: Crew) -> threading.Thread:
    """Return the thread that does a piece of work."""
    threads: Queue[threading.Thread] = Queue()
    crew.do(lambda: threads.put(threading.current_thread()))
    return threads.get(timeout=within(10))


def has_idle(crew: Crew, number: int) -> bool:
    return len(crew._idle) == number


def occupy(crew: Crew) -> tuple[threading.Thread, threading.Event]:
    """Occupy a thread until the event is set."""
    release, threads = threading.Event(), Queue[threading.Thread]()

    def work() -> None:
        threads.put(threading.current_thread())
        release.wait(timeout=within(60))

    crew.do(work)
    return threads.get(timeout=within(10)), release


def test_the_thread_that_was_busy_last_is_the_first_to_get_work() -> None:
    crew = Crew(3, idle_s=600)
    occupied = [occupy(crew) for _ in range(3)]
    for idle, number in enumerate((1, 2, 0), start=1):
        thread, release = occupied[number]
        release.set()
        wait_for(partial(has_idle, crew, idle), every_s=0.01)
        for _ in range(20):
            assert thread_of(crew) is thread
            wait_for(partial(has_idle, crew, idle), every_s=0.001)


def test_no_more_threads_than_allowed_and_the_rest_waits_in_its_order() -> None:
    crew, done = Crew(2, idle_s=600), Queue[int]()
    (_, first), (_, second) = occupy(crew), occupy(crew)
    for number in range(100):
        crew.do(partial(done.put, number))
    assert done.empty()
    first.set()
    assert [done.get(timeout=within(10)) for _ in range(100)] == list(range(100))
    second.set()


def test_a_failure_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    crew = Crew(1, idle_s=600)
    with caplog.at_level(logging.ERROR):
        crew.do(fail)
        assert thread_of(crew).is_alive()
    assert "no such thing" in caplog.text


def test_an_idle_thread_ends_and_another_one_is_started_when_there_is_work() -> None:
    crew = Crew(1, idle_s=0.01)
    thread = thread_of(crew)
    thread.join(timeout=within(10))
    assert not thread.is_alive()
    assert thread_of(crew) is not thread


def test_no_work_is_lost_while_threads_end() -> None:
    crew, done = Crew(3, idle_s=0.0005), Queue[int]()
    pause = threading.Event()
    for number in range(3000):
        crew.do(partial(done.put, number))
        if number % 3 == 0:
            pause.wait(0.0005)
    assert sorted(done.get(timeout=within(10)) for _ in range(3000)) == list(range(3000))


def test_nothing_is_kept_of_work_that_is_done() -> None:
    """A reference to a request keeps its connection open, even if its body is not read."""

    class Request:
        def answer(self) -> None:
            pass

    crew, request = Crew(1, idle_s=600), Request()
    kept = weakref.ref(request)
    crew.do(request.answer)
    del request
    wait_for(lambda: kept() is None, every_s=0.01)
