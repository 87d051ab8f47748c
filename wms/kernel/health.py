"""Liveness (/healthz) and readiness (/readyz) of a web process, for supervisors and load balancers."""

import logging
from http import HTTPStatus

from celery import current_app
from django.db import connection
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from wms.kernel import liveness

logger = logging.getLogger(__name__)

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
    """Answer 200 if database and broker are reachable and beat runs, else 503 with the parts that are down."""
    parts = {"database": database_answers(), "broker": broker_answers(), "beat": beat_works()}
    answer: dict[str, object] = {part: "up" if up else "down" for part, up in parts.items()}
    if all(parts.values()):
        return JsonResponse({"status": "ready", **answer})
    down = [part for part, up in parts.items() if not up]
    logger.warning("health.not_ready", extra={"down": down})
    return JsonResponse({"status": "not ready", **answer}, status=HTTPStatus.SERVICE_UNAVAILABLE)


def database_answers() -> bool:
    """Return whether the database executes a statement."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        connection.close()  # so that the next request opens a new one
        return False
    return True


def broker_answers() -> bool:
    """Return whether the broker accepts a connection."""
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_TIMEOUT_S) as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_TIMEOUT_S)
    except (OperationalError, OSError):
        return False
    return True


def beat_works() -> bool:
    """Return whether beat and a worker have reported within the last minute."""
    try:
        return liveness.is_alive(liveness.BEAT)
    except DatabaseError:
        return False
