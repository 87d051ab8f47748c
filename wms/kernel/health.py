"""Liveness (/healthz) and readiness (/readyz) of a web process, for supervisors and load balancers."""

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from celery import current_app
from django.db import connection, transaction
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from wms.kernel import liveness
from wms.kernel.clock import complaint_of_clock
from wms.kernel.database_version import refusal_of_database
from wms.kernel.db import RETRY_AFTER_S

if TYPE_CHECKING:
    from kombu.transport.redis import Channel

logger = logging.getLogger(__name__)

#: Numbers that take more than the least memory of a query, so that the database writes them into a temporary file.
WRITES: Final = """
SELECT current_setting('transaction_read_only') = 'off', count(*) FROM generate_series(1, 10000)
"""

#: Seconds for one connection to the broker: load balancers poll every few seconds and do not wait longer.
BROKER_TIMEOUT_S = 2


@never_cache
@require_safe
def alive(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as the process answers; it accesses nothing else."""
    return JsonResponse({"status": "alive"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 if the database can be written, so can the broker, and beat runs, else 503 with what is down."""
    parts = {"database": database_writes(), "broker": broker_writes(), "beat": beat_works()}
    refusal: str | None = None
    try:
        refusal, sites_stopped = refusal_of_database(), liveness.has_stopped(liveness.SITES)
        parts["database"] &= refusal is None
    except DatabaseError:
        parts["database"], sites_stopped = False, False
    answer: dict[str, object] = {part: "up" if up else "down" for part, up in parts.items()}
    if refusal:
        answer["detail"] = refusal
    if sites_stopped:
        answer[liveness.SITES] = "down"  # pilots are not sent; those that run get jobs
    if complaint := complaint_of_clock():
        answer["clock"] = complaint
    if all(parts.values()):
        return JsonResponse({"status": "ready", **answer})
    down = [part for part, up in parts.items() if not up]
    logger.warning("health.not_ready", extra={"down": down})
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return JsonResponse({"status": "not ready", **answer}, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


def database_writes() -> bool:
    """Return whether the database may be written to, and has space on its volume for a temporary file."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL work_mem = '64kB'")
            cursor.execute(WRITES)
            ((may_write, _),) = cursor.fetchall()
    except DatabaseError:
        connection.close()  # so that the next request opens a new one
        return False
    return bool(may_write)


def broker_writes() -> bool:
    """Return whether the broker accepts a connection and a value, as it does not when its memory is full."""
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_TIMEOUT_S) as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_TIMEOUT_S)
            cast("Channel", broker.default_channel).client.set("wms-readiness", "", ex=BROKER_TIMEOUT_S)
    except (OperationalError, RedisError, OSError):
        return False
    return True


def beat_works() -> bool:
    """Return whether beat and a worker have reported within the last minute."""
    try:
        return liveness.is_alive(liveness.BEAT)
    except DatabaseError:
        return False
