"""The database's clock, moved."""

from datetime import timedelta

from django.db import connection

_offset_s = 0.0


def pass_time(**duration: float) -> None:
    """Let the time by which leases are measured go on, for this connection; the fixture ``clock`` turns it back."""
    global _offset_s  # noqa: PLW0603 - one connection, one clock
    _offset_s += timedelta(**duration).total_seconds()
    _set(_offset_s)


def reset_clock() -> None:
    """Set the clock right again."""
    global _offset_s  # noqa: PLW0603 - one connection, one clock
    _offset_s = 0.0
    _set(0.0)


def _set(offset_s: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('wms.clock_offset_s', %s, false)", [str(offset_s)])
