"""The background work of the kernel."""

from celery import shared_task

from wms.kernel import pulse


@shared_task(name="kernel.beat_pulse", ignore_result=True, acks_late=True)
def beat_pulse() -> None:
    """Every 10 s: show that beat sends and a worker obeys; late or never: /readyz says that beat is down."""
    pulse.show(pulse.BEAT)
