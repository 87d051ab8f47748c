"""Draining and killing chosen pilots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db.models import QuerySet

from pilots.models import Pilot
from pilots.services import exclusions
from wms.accounts.models import User

#: Pilots of one request.
MOST_PILOTS: Final = 10_000


class PilotAction(StrEnum):
    """Actions on pilots."""

    #: They get no further jobs, and end after those that they have.
    DRAIN = "drain"
    #: Their tokens are revoked, they are ended in the batch system, and their jobs wait again.
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPilots:
    """The number of pilots that were drained or killed, and the computing elements that have to be served."""

    pilots: int
    ce_ids: Sequence[int] = ()


def first_ids(pilots: QuerySet[Pilot]) -> list[int]:
    """Return the ids of the pilots, of one more than a request may act on at most."""
    return list(pilots.order_by("pk").values_list("pk", flat=True)[: MOST_PILOTS + 1])


def act(action: PilotAction, ids: Sequence[int], *, reason: str, by: User, now: datetime) -> ChangedPilots:
    """Drain or kill these pilots, which the user may change; those that have ended or are so already stay as they are.

    Args:
        action: what is done.
        ids: of the pilots, chosen among those of ``changeable_by``.
        reason: which the status of the pilots shows.
        by: the acting user.
        now: the time of the request.
    """
    pilots = Pilot.objects.filter(pk__in=ids)
    if action is PilotAction.DRAIN:
        return ChangedPilots(pilots=exclusions.drain(pilots, reason=f"drained by {by}: {reason}", now=now))
    revoked = exclusions.revoke(pilots, by=f"{by}: {reason}", now=now)
    return ChangedPilots(pilots=revoked.pilots, ce_ids=sorted(revoked.ce_ids))
