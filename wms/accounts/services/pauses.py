"""Pauses of matching for a VO or all: jobs wait until an end, with a reason that everybody is shown."""

from collections.abc import Sequence
from copy import copy
from datetime import datetime

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import change_in_words


class PauseError(RejectedError):
    """The pause has no reason, or its end is not in the future."""

    code = "bad_pause"


@transaction_required
def set_pause(vo: VO, *, until: datetime | None, reason: str, by: User, now: datetime) -> None:
    """Pause matching for *vo*, or let it go on; jobs that run are not touched. *vo* is updated too.

    The present pause with the same end and reason changes nothing, and a pause of all VOs stays as it is.

    Args:
        vo: the VO.
        until: None: matching goes on.
        reason: shown to everybody whose jobs wait.
        by: the acting user.
        now: the time of the change.

    Raises:
        PauseError: the reason is missing, or the end is past.
    """
    _check(until, reason, now=now)
    stored = VO.objects.select_for_update(no_key=True).get(pk=vo.pk)
    vo.paused_until, vo.pause_reason = until, reason
    _save(vo, stored, fields=("paused_until", "pause_reason"), by=by)


@transaction_required
def set_pause_of_all(*, until: datetime | None, reason: str, by: User, now: datetime) -> int:
    """Pause matching for all VOs, or end that; return how many VOs this has changed.

    Pauses of a VO's own stay as they are, with their ends. Each VO has the change in its history.

    Args:
        until: None: the pause of all ends.
        reason: shown to everybody whose jobs wait.
        by: the acting operator.
        now: the time of the change.

    Raises:
        PauseError: the reason is missing, or the end is past.
    """
    _check(until, reason, now=now)
    changed = 0
    for stored in VO.objects.select_for_update(no_key=True).order_by("pk"):
        vo = copy(stored)
        vo.all_paused_until, vo.all_pause_reason = until, reason
        changed += _save(vo, stored, fields=("all_paused_until", "all_pause_reason"), by=by)
    return changed


def _check(until: datetime | None, reason: str, *, now: datetime) -> None:
    problems = {}
    if until is not None and not reason:
        problems["reason"] = "Give the reason of the pause: everybody whose jobs wait is shown it."
    if until is not None and until <= now:
        problems["until"] = "This time is past; give a future time."
    if problems:
        raise PauseError(" ".join(problems.values()), errors={field: [words] for field, words in problems.items()})


def _save(vo: VO, stored: VO, *, fields: Sequence[str], by: User) -> bool:
    """Save the fields and record what has changed; return whether anything has."""
    changes = {
        name: change_in_words(before, after)
        for name in fields
        if (before := getattr(stored, name)) != (after := getattr(vo, name))
    }
    if not changes:
        return False
    vo.save(update_fields=fields)
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=f"VO {vo}", row=vo, what="changed", changes=changes)
    return True
