"""The removal of old entries of the log of changes in the admin."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.admin.models import LogEntry


def remove_old(*, now: datetime) -> int:
    """Remove the entries older than WMS_KEEP_ADMIN_LOG_DAYS, and return their number."""
    days = settings.WMS_KEEP_ADMIN_LOG_DAYS
    if not days:
        return 0
    removed, _ = LogEntry.objects.filter(action_time__lt=now - timedelta(days=days)).delete()
    return removed
