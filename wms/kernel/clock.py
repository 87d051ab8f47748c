"""The database's clock as this process carries it: times of different machines may be compared (ADR 90)."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Final

from django.db import connection
from django.db.utils import Error as DatabaseError

from wms.kernel.fast.statements import query_prepared

logger = logging.getLogger(__name__)

#: Also counts while a virtual machine is suspended.
monotonic: Final = partial(clock_gettime, CLOCK_BOOTTIME)
#: Seconds after which a process reads the database's clock again; a clock that is not synchronised drifts by 1 ms.
_READ_EVERY_S: Final = 10.0
#: The same where it could not be read yet, and the time is of this machine.
_FIRST_READ_EVERY_S: Final = 1.0
#: Seconds of a statement that says the time; a longer one is ignored.
_LONGEST_READ_S: Final = 0.5
#: A larger difference of this machine's clock is reported.
_DIFFERS_BY: Final = timedelta(seconds=1)


class _Clock:
    """Of this process: the time of the database when it was last read, and the monotonic time of this machine then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read_again_at = float("inf")
        self._read: tuple[datetime, float] | None = None
        #: Of this machine's clock before the database's, when it was last read.
        self.ahead = timedelta()
        #: What people should know of the clock of this machine; empty: nothing.
        self.complaint = ""

    def start(self) -> None:
        """Read the database's clock with the next call and then on; without a start, the time is of this machine."""
        self._read_again_at = 0.0

    def now(self) -> datetime:
        """Return the time."""
        # Where nothing was read yet, others wait: the time of the machine would be stored.
        if monotonic() >= self._read_again_at and self._lock.acquire(blocking=self._read is None):
            try:
                if monotonic() >= self._read_again_at:
                    self._read_anew()
            finally:
                self._lock.release()
        if self._read is None:
            return datetime.now(UTC)
        then, at_s = self._read
        return then + timedelta(seconds=monotonic() - at_s)

    def _read_anew(self) -> None:
        if connection.in_atomic_block and self._read:
            return  # a later call reads it: an error would end the transaction
        try:
            connection.ensure_connection()
            before_s = monotonic()
            ((then,),) = query_prepared("SELECT wms_now()")
        except DatabaseError:  # it is away, or has no tables yet: the time goes on
            self._read_again_at = monotonic() + (_READ_EVERY_S if self._read else _FIRST_READ_EVERY_S)
            return
        after_s = monotonic()
        self._read_again_at = after_s + _READ_EVERY_S
        if after_s - before_s > _LONGEST_READ_S and self._read:
            return  # it is not known when the database read its clock
        self._read = then, (before_s + after_s) / 2
        self._compare(datetime.now(UTC) - then - timedelta(seconds=(after_s - before_s) / 2))

    def _compare(self, ahead: timedelta) -> None:
        self.ahead = ahead
        differs = abs(ahead) > _DIFFERS_BY
        if differs and not self.complaint:
            logger.warning("clock.differs: %s", _complaint(ahead))
        self.complaint = _complaint(ahead) if differs else ""


def _complaint(ahead: timedelta) -> str:
    direction = "ahead of" if ahead > timedelta() else "behind"
    return (
        f"The clock of this machine is {abs(ahead).total_seconds():.1f} s {direction} the database's: synchronise it. "
        "Times that are compared come from the database."
    )


_clock = _Clock()
#: Called when a process of the web server or of Celery, or a command, starts.
start_clock = _clock.start
#: Return the time by the database's clock, without a query but once in ten seconds.
current_time = _clock.now


def complaint_of_clock() -> str:
    """Return a sentence if this machine's clock differs from the database's by more than a second; empty otherwise."""
    _clock.now()
    return _clock.complaint


def clock_ahead() -> timedelta:
    """Return how far this machine's clock is ahead of the database's; 0 where it was not compared yet."""
    return _clock.ahead
