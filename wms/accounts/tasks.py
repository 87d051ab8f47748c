"""Background tasks of the accounts app; safe to run twice, late or never (the next run catches up)."""

from celery import shared_task

from wms.accounts import security_log, services
from wms.accounts.services import admin_log, people, sessions
from wms.kernel.clock import current_time
from wms.kernel.counters import ROWS_REMOVED


@shared_task(name="accounts.remove_old_security_events", ignore_result=True, acks_late=True)
def remove_old_security_events() -> None:
    """Every hour: remove old events of the security log."""
    ROWS_REMOVED.labels("accounts_securityevent").inc(security_log.remove_old(now=current_time()))


@shared_task(name="accounts.remove_expired_invitations", ignore_result=True, acks_late=True)
def remove_expired_invitations() -> None:
    """Every hour: remove the expired invitations."""
    ROWS_REMOVED.labels("accounts_invitation").inc(services.remove_expired_invitations(now=current_time()))


@shared_task(name="accounts.remove_lapsed_memberships", ignore_result=True, acks_late=True)
def remove_lapsed_memberships() -> None:
    """Every minute: remove the memberships by claim that no log-in has confirmed for WMS_OIDC_MEMBERSHIP_DAYS."""
    people.remove_lapsed_memberships(now=current_time())


@shared_task(name="accounts.remove_expired_sessions", ignore_result=True, acks_late=True)
def remove_expired_sessions() -> None:
    """Every hour: remove the sessions of the portal that have expired."""
    ROWS_REMOVED.labels("django_session").inc(sessions.remove_expired_sessions(now=current_time()))


@shared_task(name="accounts.remove_old_admin_log", ignore_result=True, acks_late=True)
def remove_old_admin_log() -> None:
    """Every hour: remove the entries of the admin's log older than WMS_KEEP_ADMIN_LOG_DAYS."""
    ROWS_REMOVED.labels("django_admin_log").inc(admin_log.remove_old(now=current_time()))
