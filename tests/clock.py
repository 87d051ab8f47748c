"""The database's clock, set by tests; and evaluations of throttles that no clock ends."""

from datetime import timedelta
from math import inf

import pytest
from django.db import connection

from matching.services import site_throttle
from taskqueues.services import restrictions

_offset_s = 0.0


def pass_time(**duration: float) -> None:
    """Advance the clock of leases for this connection; the fixture ``clock`` sets it back."""
    global _offset_s  # noqa: PLW0603 - one connection, one clock
    _offset_s += timedelta(**duration).total_seconds()
    _set(_offset_s)


def stop_clock() -> None:
    """Advance time by ``pass_time`` only, until the test's transaction is rolled back, because machines may be slow."""
    _set(_offset_s)
    with connection.cursor() as cursor:
        cursor.execute("SELECT wms_now()")
        (now,) = cursor.fetchone()
        cursor.execute(
            f"""
            CREATE OR REPLACE FUNCTION wms_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
                SELECT timestamptz '{now.isoformat()}' + make_interval(
                    secs => current_setting('wms.clock_offset_s', true)::double precision - {_offset_s}
                )
            $$
            """
        )


def reset_clock() -> None:
    """Set the clock back to the real time."""
    global _offset_s  # noqa: PLW0603 - one connection, one clock
    _offset_s = 0.0
    _set(0.0)


def _set(offset_s: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('wms.clock_offset_s', %s, false)", [str(offset_s)])


@pytest.fixture(autouse=True)
def patient_throttles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate expressions on all jobs, however long a busy machine takes for them."""
    for module in (site_throttle, restrictions):
        monkeypatch.setattr(module, "PATIENCE_S", inf)
