"""Background tasks of the kernel."""

from celery import shared_task

from wms.kernel import liveness


@shared_task(name="kernel.report_liveness", ignore_result=True, acks_late=True)
def report_liveness() -> None:
    """Every 10 s: record that beat sends, a worker executes, and its last runs; else /readyz reports beat as down."""
    liveness.report(liveness.BEAT)


@shared_task(name="kernel.report_sites", ignore_result=True, acks_late=True)
def report_sites() -> None:
    """Every 10 s: record that the worker of the queue sites executes; if it stops, /readyz and `up` say so."""
    liveness.report(liveness.SITES)
