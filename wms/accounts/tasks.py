"""Background work of the accounts app; safe to run twice, late or never (the next run makes up for it)."""

from celery import shared_task
from django.utils import timezone

from wms.accounts import security_log, services


@shared_task(name="accounts.remove_old_security_events", ignore_result=True, acks_late=True)
def remove_old_security_events() -> None:
    """Every hour: what the security log has held for WMS_SECURITY_LOG_DAYS."""
    security_log.remove_old(now=timezone.now())


@shared_task(name="accounts.remove_expired_invitations", ignore_result=True, acks_late=True)
def remove_expired_invitations() -> None:
    """Every hour: invitations that have expired; nobody can accept them any more."""
    services.remove_expired_invitations(now=timezone.now())
