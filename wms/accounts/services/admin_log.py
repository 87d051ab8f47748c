"""The history of a row on its page of the administration: entries of other doors, and the removal of old ones."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.db.models import Model

from wms.accounts.models import User

_FLAGS = {"added": ADDITION, "changed": CHANGE, "deleted": DELETION}


def note_in_history(row: Model, what: str, sentence: str, *, by: User) -> None:
    """Write into the history of *row* what *by* has done to it outside of its page.

    Args:
        row: before its deletion, after anything else.
        what: added, changed or deleted.
        sentence: what the history shows.
        by: the acting user.
    """
    LogEntry.objects.log_actions(by.pk, [row], _FLAGS[what], change_message=sentence, single_object=True)


def remove_old(*, now: datetime) -> int:
    """Remove the entries older than WMS_KEEP_ADMIN_LOG_DAYS, and return their number."""
    days = settings.WMS_KEEP_ADMIN_LOG_DAYS
    if not days:
        return 0
    removed, _ = LogEntry.objects.filter(action_time__lt=now - timedelta(days=days)).delete()
    return removed
