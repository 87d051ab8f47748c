"""The stream of the log: what recurs is written once a minute, and an outage is one line."""

import errno
import io
import logging
import time
from collections.abc import Callable

import kombu.exceptions
import psycopg
import pytest
import redis.exceptions

from wms.kernel.log_lines import LineWithFacts
from wms.kernel.log_stream import MOST_CAUSES, ONCE_IN_S, OnceAMinute


def raised(error: Exception) -> Exception:
    """Return the error with its traceback."""
    with pytest.raises(type(error)):
        raise error
    return error


class Log:
    """A log whose clock stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self._stream = io.StringIO()
        self.handler = OnceAMinute(self._stream)
        self.handler.setFormatter(LineWithFacts("%(levelname)s %(message)s", ours=["wms"]))
        self.logger = logging.Logger("wms.jobs")  # noqa: LOG001 - a global one would keep the handler
        self.logger.addHandler(self.handler)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def fail(self, error: Exception, message: str = "it failed") -> None:
        self.logger.error(message, exc_info=raised(error))

    def lines(self) -> list[str]:
        """Return the lines since the last call, tracebacks left out."""
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return [line for line in text.splitlines() if not line.startswith("    ")]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log: list[Log] = []
    monkeypatch.setattr(time, "monotonic", lambda: log[0].now if log else 0.0)
    log.append(Log())
    return log[0]


def test_an_equal_warning_is_written_once_a_minute_with_the_number_left_out(log: Log) -> None:
    for _ in range(5):
        log.logger.warning("health.not_ready", extra={"down": ["broker"]})
        log.pass_time(10)
    assert log.lines() == ['WARNING health.not_ready down=["broker"]']
    log.pass_time(20)
    log.logger.warning("health.not_ready", extra={"down": ["broker"]})
    assert log.lines() == ['WARNING health.not_ready down=["broker"] left_out=4']


def test_warnings_with_other_facts_are_all_written(log: Log) -> None:
    for ce_id in range(3):
        log.logger.warning("ce.failed", extra={"ce_id": ce_id})
    assert len(log.lines()) == 3


def test_lives_of_jobs_are_all_written(log: Log) -> None:
    for _ in range(3):
        log.logger.info("job.matched", extra={"job": 1})
    assert log.lines() == ["INFO job.matched job=1"] * 3


def test_a_number_left_out_is_written_after_the_last_occurrence_too(log: Log) -> None:
    for _ in range(3):
        log.logger.warning("it hangs")
    log.lines()
    log.pass_time(ONCE_IN_S + 1)
    log.logger.info("something else")
    assert log.lines() == ["WARNING it hangs left_out=2", "INFO something else"]


def test_errors_of_other_places_or_types_are_other_causes(log: Log) -> None:
    for _ in range(3):
        log.fail(ValueError("one"))
        log.fail(KeyError("two"))
        elsewhere = ValueError("three")
        with pytest.raises(ValueError, match="three"):
            raise elsewhere
        log.logger.error("it failed", exc_info=elsewhere)
    assert log.lines() == ["ERROR it failed"] * 3


OUTAGES: dict[str, Callable[[], Exception]] = {
    "database": lambda: psycopg.OperationalError("connection refused"),
    "broker": lambda: kombu.exceptions.OperationalError("connection refused"),
    "disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
}


@pytest.mark.parametrize("part", OUTAGES)
def test_an_outage_is_one_line_whoever_meets_it_and_an_error_when_it_lasts(log: Log, part: str) -> None:
    def meet() -> None:
        log.fail(OUTAGES[part](), "a request failed")
        behind = RuntimeError("beside")
        behind.__cause__ = OUTAGES[part]()
        log.fail(behind, "a task failed")

    meet()
    (line,) = log.lines()
    assert line.startswith(f"WARNING outage.{part}: ")
    for _ in range(59):
        log.pass_time(1)
        meet()
    assert log.lines() == []
    log.pass_time(1)
    meet()
    (line,) = log.lines()
    assert line.startswith(f"ERROR outage.{part}: ")
    assert line.endswith("left_out=119")
    log.pass_time(10 * ONCE_IN_S)
    meet()
    # A second outage, not one that has lasted.
    number, line = log.lines()
    assert number.endswith("left_out=1")
    assert line.startswith(f"WARNING outage.{part}: ")


def test_an_outage_leaves_no_traceback(log: Log) -> None:
    log.fail(OUTAGES["broker"]())
    assert log._stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("error", [redis.exceptions.BusyLoadingError("loading"), redis.exceptions.TimeoutError("late")])
def test_celerys_lines_on_its_connections_are_of_the_outage(log: Log, error: Exception) -> None:
    """They have the error as an argument."""
    for attempt in range(3):
        log.logger.error("consumer: Cannot connect to %s: %s.\n%s\n", "redis://", error, f"Trying again ({attempt})")
    (line,) = log.lines()
    assert line == f"WARNING outage.broker: {error}"


def test_an_answer_of_503_is_a_warning_and_one_of_500_an_error(log: Log) -> None:
    log.logger.name = "django.request"
    for path in ("/readyz", "/api/v1/jobs/"):
        log.logger.error("%s: %s", "Service Unavailable", path, extra={"status_code": 503})
        log.logger.error("%s: %s", "Internal Server Error", path, extra={"status_code": 500})
    assert log.lines() == [
        "WARNING Service Unavailable: /readyz",
        "ERROR Internal Server Error: /readyz",
        "ERROR Internal Server Error: /api/v1/jobs/",
    ]


def test_an_outage_is_below_the_level_of_errors_until_it_lasts(log: Log) -> None:
    log.handler.setLevel(logging.ERROR)
    log.fail(OUTAGES["database"]())
    assert log.lines() == []
    log.pass_time(ONCE_IN_S)
    log.fail(OUTAGES["database"]())
    assert len(log.lines()) == 1


def test_a_record_with_wrong_arguments_raises_nothing(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.logger.warning("%d", "three")
    assert "three" in capsys.readouterr().err


def test_causes_are_bounded(log: Log) -> None:
    for number in range(MOST_CAUSES + 50):
        log.logger.warning("other", extra={"number": number})
    assert len(log.handler._causes) == MOST_CAUSES
