"""States of sites, computing elements and queues: active, draining or banned, each with a reason and an end."""

from datetime import datetime

from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import change_in_words

#: Of tokens that are made here; one that a configuration file sets may have any spelling.
MAX_REASON_LENGTH = 255


class StateError(RejectedError):
    """The state, its reason or its end is not valid."""

    code = "bad_state"


@transaction_required
def set_state(
    level: Site | ComputingElement | Queue,
    *,
    state: ResourceState,
    reason: str,
    until: datetime | None,
    by: User | None,
    now: datetime,
) -> None:
    """Put a site, a computing element or a queue into *state*; *level* is updated too.

    The present state with the same reason and end changes nothing.

    Args:
        level: the resource; inner levels follow, because a queue needs all three levels active.
        state: the new one.
        reason: shown to physicists; required unless the new state is active.
        until: from then on it is active again; None: no end.
        by: the user; None: the configuration file.
        now: the time of the change.

    Raises:
        StateError: the reason is missing or too long, or the end is past, or the state needs no end.
    """
    reason = reason.strip()
    _check_state(state=state, reason=reason, until=until, now=now)
    stored = type(level).objects.select_for_update(of=("self",), no_key=True).get(pk=level.pk)
    level.state, level.state_reason, level.state_until = state, reason, until
    changes: dict[str, object] = {
        name.removeprefix("state_"): change_in_words(getattr(stored, name), getattr(level, name))
        for name in ("state", "state_reason", "state_until")
        if getattr(stored, name) != getattr(level, name)
    }
    if not changes:
        return
    level.state_changed_by, level.state_changed_at = by, now
    level.save(update_fields=["state", "state_reason", "state_until", "state_changed_by", "state_changed_at"])
    record(
        SecurityEventKind.RESOURCE_STATE_CHANGED,
        actor=by,
        target=full_name(level),
        row=level,
        changes=changes,
    )


def full_name(level: Site | ComputingElement | Queue) -> str:
    """Return the level in words, such as "computing element ce1 at site LCG.CERN.ch"."""
    match level:
        case Site():
            return f"site {level.name}"
        case ComputingElement():
            return f"computing element {level.name} at {full_name(level.site)}"
        case Queue():
            return f"queue {level.name} of {full_name(level.ce)}"


def _check_state(*, state: ResourceState, reason: str, until: datetime | None, now: datetime) -> None:
    problems = {}
    if state is not ResourceState.ACTIVE and not reason:
        problems["reason"] = f"give the reason why it is {state}; users see it."
    if len(reason) > MAX_REASON_LENGTH:
        problems["reason"] = f"use at most {MAX_REASON_LENGTH} characters."
    if until is not None and state is ResourceState.ACTIVE:
        problems["until"] = "an active resource has no end; leave it out."
    elif until is not None and until <= now:
        problems["until"] = "this time is past; give a future time, or leave it out."
    if problems:
        field, sentence = next(iter(problems.items()))
        raise StateError(f"{field}: {sentence}", errors={field: [text] for field, text in problems.items()})
