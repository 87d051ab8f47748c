"""Background work for those who watch the system."""

from celery import shared_task

from wms.operations import measurements


@shared_task(name="operations.measure", ignore_result=True, acks_late=True)
def measure() -> None:
    """Every 15 seconds: measure the gauges of /metrics; if it stops, their age says so."""
    measurements.store(measurements.measure())
