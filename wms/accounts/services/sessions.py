"""The removal of expired sessions."""

from datetime import datetime
from typing import Final

from django.contrib.sessions.models import Session

#: Sessions removed in one transaction.
_BATCH: Final = 1000


def remove_expired_sessions(*, now: datetime) -> int:
    """Remove the sessions that have expired, as Django's ``clearsessions`` does; return how many."""
    removed = 0
    while keys := list(Session.objects.filter(expire_date__lt=now).values_list("pk", flat=True)[:_BATCH]):
        # In short transactions; a session that is renewed meanwhile stays.
        Session.objects.filter(pk__in=keys, expire_date__lt=now).delete()
        removed += len(keys)
    return removed
