"""The stream of the log: what recurs is written once a minute, and an outage is one line, so that none fills a disk."""

import copy
import logging
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TextIO

from wms.kernel.db import is_database_away
from wms.kernel.errors import is_disk_full, with_causes
from wms.kernel.log_lines import LEFT_OUT, OF_EVERY_RECORD

#: Seconds within which a warning or error is written once.
ONCE_IN_S: Final = 60.0
#: Different ones of a minute that are told apart; beyond that the oldest is forgotten, with its number.
MOST_CAUSES: Final = 1000
#: By name: to import Redis' client would take each command longer than all it does with the log.
_OF_BROKER: Final = frozenset(
    {
        "kombu.exceptions.OperationalError",
        "redis.exceptions.ConnectionError",
        "redis.exceptions.TimeoutError",
        "redis.exceptions.OutOfMemoryError",
        "redis.exceptions.ReadOnlyError",
    }
)


@dataclass(slots=True)
class _Cause:
    """What recurs: an outage, or a warning or error with its place.

    Args:
        record: of the last line, without the error.
        written_at, seen_at: when it was last written, and last occurred, by the monotonic clock.
        began_at: when it began to recur without a pause.
        left_out: occurrences since it was last written.
    """

    record: logging.LogRecord
    written_at: float
    seen_at: float
    began_at: float
    left_out: int = 0


class OnceAMinute(logging.StreamHandler[TextIO]):
    """Writes each record, but a warning or error with the same cause once in ONCE_IN_S, with the number left out.

    The cause of a record with an error is its logger, event, and the error's type and place; of one without, its event
    and facts. An outage of the database, the broker or a disk is one cause, whoever meets it: it is a warning, since
    all goes on by itself, and an error once it lasts for longer than ONCE_IN_S, when somebody has to act. Its traceback
    is left out. An answer of 503 is a warning: what is missing has a line of its own.

    Records below a warning, such as those of the lives of jobs, are all written.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._causes: dict[tuple[object, ...], _Cause] = {}
        self._look_at = time.monotonic() + ONCE_IN_S

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it; one thread at a time."""
        try:
            now = time.monotonic()
            if now >= self._look_at:
                self._write_numbers(now)
            written = record if record.levelno < logging.WARNING else self._admitted(record, now)
        except Exception:  # noqa: BLE001 - as the library does: a wrong record fails no request
            self.handleError(record)
            return
        if written is not None and written.levelno >= self.level:
            super().emit(written)

    def _admitted(self, record: logging.LogRecord, now: float) -> logging.LogRecord | None:
        error = _error_of(record)
        outage = outage_of(error)
        written = record
        if outage is not None:
            sentence = str(error).partition("\n")[0]
            written = _changed(record, f"outage.{outage}: {sentence}")
        elif _is_answer_503(record):
            written = _changed(record, record.getMessage())
        key = (outage,) if outage else ("503",) if written is not record else _key_of(record, error)
        cause = self._causes.pop(key, None)
        if cause is None or now - cause.seen_at > 2 * ONCE_IN_S:
            cause = _Cause(record=written, written_at=now, seen_at=now, began_at=now)
        elif now - cause.written_at < ONCE_IN_S:
            cause.seen_at, cause.left_out = now, cause.left_out + 1
            self._causes[key] = cause
            return None
        if outage and now - cause.began_at >= ONCE_IN_S:
            written.levelno, written.levelname = logging.ERROR, "ERROR"
        if cause.left_out:
            written = copy.copy(written)
            setattr(written, LEFT_OUT, cause.left_out)
        cause.record, cause.written_at, cause.seen_at, cause.left_out = _changed(written), now, now, 0
        self._causes[key] = cause  # the newest is the last
        if len(self._causes) > MOST_CAUSES:
            del self._causes[next(iter(self._causes))]
        return written

    def _write_numbers(self, now: float) -> None:
        """Write how often a cause has recurred that does no more, and forget those that are over."""
        self._look_at = now + ONCE_IN_S
        for key, cause in tuple(self._causes.items()):
            if cause.left_out and now - cause.seen_at > ONCE_IN_S:
                setattr(cause.record, LEFT_OUT, cause.left_out)
                cause.left_out = 0
                super().emit(cause.record)
            if now - cause.seen_at > 2 * ONCE_IN_S:
                del self._causes[key]


def outage_of(error: BaseException | None) -> str | None:
    """Return which part of the system an error, or a cause of it, says to be away; None: it is no such error."""
    if is_database_away(error):
        return "database"
    if is_disk_full(error):
        return "disk"
    types = (kind for each in with_causes(error) for kind in type(each).__mro__)
    return "broker" if any(f"{kind.__module__}.{kind.__qualname__}" in _OF_BROKER for kind in types) else None


def _error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the error that a record is about; Celery passes those of its connections as arguments."""
    if record.exc_info and record.exc_info[1]:
        return record.exc_info[1]
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((each for each in arguments if isinstance(each, BaseException)), None)


def _is_answer_503(record: logging.LogRecord) -> bool:
    return record.name == "django.request" and getattr(record, "status_code", 0) == HTTPStatus.SERVICE_UNAVAILABLE


def _key_of(record: logging.LogRecord, error: BaseException | None) -> tuple[object, ...]:
    if error is None:
        facts = [(name, repr(value)) for name, value in vars(record).items() if name not in OF_EVERY_RECORD]
        return (record.name, record.levelno, record.getMessage(), *facts)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return (record.name, record.levelno, record.msg, type(error), place)


def _changed(record: logging.LogRecord, message: str | None = None) -> logging.LogRecord:
    """Return a copy that keeps no error; with another *message*, as a warning."""
    changed = copy.copy(record)
    changed.exc_info = changed.exc_text = changed.stack_info = None
    changed.msg, changed.args = record.getMessage() if message is None else message, ()
    if message is not None:
        changed.levelno, changed.levelname = logging.WARNING, "WARNING"
    return changed
