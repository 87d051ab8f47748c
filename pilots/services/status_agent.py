"""The status agent: asks the CEs after the pilots that were sent there, and ends those that are no more (PIL §2.3)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from pilots.backends.interface import BatchState, Presence
from pilots.domain import ENDED, PilotStatus
from pilots.domain.fates import Fate, Patience, Seen, fate_of
from pilots.models import Pilot
from pilots.services.fleet import BACKENDS, Fleet
from pilots.services.reports import end_pilot
from resources.domain.words import ResourceState
from resources.models import ComputingElement, Queue

_NOT_KNOWN = BatchState(presence=Presence.UNKNOWN)


def look_after(fleet: Fleet, *, watched_since: datetime, now: datetime) -> int:
    """Look at every pilot that has not ended; return how many have by now.

    Leases of ended pilots are ended by ``matching``, which looks for them; so their jobs come back.

    Args:
        fleet: the CEs, each of which is asked once.
        watched_since: since when this director runs: before that, an outage may be why pilots were not heard.
        now: the time.
    """
    living = Pilot.objects.filter(ended_at__isnull=True, queue__isnull=False)
    pilots = living.select_related("queue__ce__site", "secret").order_by("pk")
    of_ce: defaultdict[ComputingElement, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        of_ce[_queue_of(pilot).ce].append(pilot)
    return sum(_look_after_ce(fleet, ce, pilots, watched_since=watched_since, now=now) for ce, pilots in of_ce.items())


def _look_after_ce(
    fleet: Fleet, ce: ComputingElement, pilots: Sequence[Pilot], *, watched_since: datetime, now: datetime
) -> int:
    can_be_asked = ce.type in BACKENDS
    states = fleet.status(ce, [one.batch_id for one in pilots if one.batch_id]) if can_be_asked else {}
    patience = Patience(
        start=timedelta(seconds=settings.WMS_PILOT_START_S), silence=timedelta(seconds=settings.WMS_PILOT_LOST_S)
    )
    fates = {}
    for pilot in pilots:
        seen = _seen(pilot, states, now=now)
        fate = fate_of(seen, patience=patience, watched_since=watched_since, now=now)
        if fate is not None and _commit(pilot, fate, surely=seen.gone, now=now):
            fates[pilot] = fate
    if can_be_asked and (doomed := list(_to_kill(fates))):
        fleet.kill(ce, doomed)
    return sum(fate.status in ENDED for fate in fates.values())


def _seen(pilot: Pilot, states: Mapping[str, BatchState], *, now: datetime) -> Seen:
    state = states.get(pilot.batch_id, _NOT_KNOWN)
    queue = _queue_of(pilot)
    return Seen(
        status=PilotStatus(pilot.status),
        sent=hasattr(pilot, "secret"),
        accepted=bool(pilot.batch_id),
        gone=state.presence is Presence.ENDED,
        exit_code=state.exit_code,
        banned=any(level.state_at(now) is ResourceState.BANNED for level in (queue, queue.ce, queue.ce.site)),
        submitted_at=pilot.submitted_at,
        started_at=pilot.started_at,
        last_seen_at=pilot.last_seen_at,
    )


@transaction.atomic(durable=True)
def _commit(pilot: Pilot, fate: Fate, *, surely: bool, now: datetime) -> bool:
    """Commit the fate; False when the pilot has given a sign of life, or has ended, since it was looked at.

    Args:
        surely: it is gone, whatever it said last.
    """
    as_seen = Pilot.objects.filter(pk=pilot.pk, ended_at__isnull=True)
    if not surely:
        as_seen = as_seen.filter(started_at=pilot.started_at, last_seen_at=pilot.last_seen_at)
    if not as_seen.select_for_update(of=("self",)).exists():
        return False
    if fate.status in ENDED:
        return end_pilot(pilot.pk, status=fate.status, reason=fate.reason, now=now)
    as_seen.update(status=fate.status, status_reason=fate.reason)
    return True


def _to_kill(fates: Mapping[Pilot, Fate]) -> Iterable[str]:
    return (pilot.batch_id for pilot, fate in fates.items() if fate.kill and pilot.batch_id)


def _queue_of(pilot: Pilot) -> Queue:
    if pilot.queue is None:
        raise AssertionError("only pilots at queues are looked at")
    return pilot.queue
