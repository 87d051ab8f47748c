"""Background tasks on pilots and computing elements; safe to run twice, late or never (the next run catches up)."""

from collections.abc import Iterable

from celery import shared_task
from celery.signals import worker_shutdown
from django.conf import settings

from pilots.backends.commands import stop_sharing
from pilots.services import ce_cycle, director_cycle, logs
from wms.kernel.clock import current_time
from wms.kernel.counters import ROWS_REMOVED


@shared_task(name="pilots.serve_ce", ignore_result=True, acks_late=True)
def serve_ce(ce_id: int) -> None:
    """Run a round at one computing element, on request (PIL §2.3)."""
    ce_cycle.serve(ce_id)


@shared_task(name="pilots.serve_ces", ignore_result=True, acks_late=True)
def serve_ces() -> None:
    """Request a round at every computing element that has pilots or could get some; runs in each director cycle."""
    serve_soon(director_cycle.begin_rounds(now=current_time()))


@shared_task(name="pilots.remove_old_logs", ignore_result=True, acks_late=True)
def remove_old_logs() -> None:
    """Remove logs of pilots that have not changed for 30 days (WMS_PILOT_LOG_S); runs every hour."""
    ROWS_REMOVED.labels("pilots_pilotlog").inc(logs.remove_old(now=current_time()))


@worker_shutdown.connect
def stop_sharing_connections(**_sent: object) -> None:
    """Close the shared connections of a worker that stops; else they would stay open until the next round."""
    stop_sharing((settings.WMS_DATA_DIR / "pilots").glob("*/*"))


def serve_soon(ce_ids: Iterable[int]) -> None:
    """Request rounds at these computing elements; one that has not begun before the next cycle expires."""
    for ce_id in ce_ids:
        serve_ce.apply_async(kwargs={"ce_id": ce_id}, retry=False, expires=max(5.0, settings.WMS_DIRECTOR_CYCLE_S))
