"""Work limited to a part of the time."""

from itertools import count

from wms.kernel.pace import Pace


def test_slow_work_is_repeated_rarely() -> None:
    now_s = 0.0
    done_at_s: list[float] = []

    def work() -> None:
        nonlocal now_s
        done_at_s.append(now_s)
        now_s += 0.25

    pace = Pace(part=0.1, clock=lambda: now_s)
    for asked_at_s in range(6):
        now_s = max(now_s, float(asked_at_s))
        pace.run(work)
    assert done_at_s == [0.0, 3.0]


def test_fast_work_is_repeated_on_each_request() -> None:
    ticks = count()
    pace = Pace(part=0.1, clock=lambda: 7.0)
    for _ in range(3):
        pace.run(lambda: next(ticks))
    assert next(ticks) == 3


def test_failed_work_is_repeated() -> None:
    pace = Pace(part=0.1, clock=lambda: 7.0)
    attempts: list[str] = []

    def fail() -> None:
        attempts.append("begun")
        raise ZeroDivisionError

    for _ in range(2):
        try:
            pace.run(fail)
        except ZeroDivisionError:
            attempts.append("failed")
    assert attempts == ["begun", "failed"] * 2
