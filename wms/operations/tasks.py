"""Background work for those who watch the system."""

from celery import shared_task

from wms.operations import id_marks, measurements


@shared_task(name="operations.measure", ignore_result=True, acks_late=True)
def measure() -> None:
    """Every 15 seconds: measure the gauges of /metrics; if it stops, their age says so."""
    measurements.store(measurements.measure())


@shared_task(name="operations.keep_id_mark", ignore_result=True, acks_late=True)
def keep_id_mark() -> None:
    """Every 15 seconds: write the highest ids to a file, so that none is given again after a restore (ADR 102)."""
    id_marks.keep()
