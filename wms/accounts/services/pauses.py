"""Pauses of matching for a VO: its jobs wait until an end, with a reason that everybody is shown."""

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

    The present pause with the same end and reason changes nothing.

    Args:
        vo: the VO.
        until: None: matching goes on.
        reason: shown to everybody whose jobs wait.
        by: the acting user.
        now: the time of the change.

    Raises:
        PauseError: the reason is missing, or the end is past.
    """
    problems = {}
    if until is not None and not reason:
        problems["reason"] = "Give the reason of the pause: everybody whose jobs wait is shown it."
    if until is not None and until <= now:
        problems["until"] = "This time is past; give a future time."
    if problems:
        raise PauseError(" ".join(problems.values()), errors={field: [words] for field, words in problems.items()})
    stored = VO.objects.select_for_update(no_key=True).get(pk=vo.pk)
    vo.paused_until, vo.pause_reason = until, reason
    changes = {
        name: change_in_words(before, after)
        for name in ("paused_until", "pause_reason")
        if (before := getattr(stored, name)) != (after := getattr(vo, name))
    }
    if not changes:
        return
    vo.save(update_fields=["paused_until", "pause_reason"])
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=f"VO {vo}", row=vo, what="changed", changes=changes)
