"""Background work on pilots; safe to run twice, late or never (the next run makes up for it)."""

from celery import shared_task
from django.utils import timezone

from pilots.services import logs


@shared_task(name="pilots.remove_old_logs", ignore_result=True, acks_late=True)
def remove_old_logs() -> None:
    """Every hour: logs of pilots that nothing was added to for 30 days (WMS_PILOT_LOG_S)."""
    logs.remove_old(now=timezone.now())
