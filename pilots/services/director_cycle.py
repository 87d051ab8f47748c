"""One cycle of the directors: decide what is sent where and commit it; rounds at the CEs carry it out (PIL §2.3)."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from random import Random
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from pilots import sql
from pilots.models import CEHealth, DirectorRun, Pilot
from pilots.queries import free_slots, heard_since, left_alone, open_queues
from pilots.services import ce_changes, provisioning
from pilots.services.provisioning import PlannedPilot
from pilots.services.secrets import issue_secrets
from pilots.services.status_agent import CLEANED_AFTER
from resources.models import ComputingElement
from taskqueues.services.index.shared import index
from taskqueues.services.restrictions import ReadClosings
from wms.kernel.db import LockKey, transaction_required, try_lock

#: A CE without pilots is only asked how many it could take: what it said holds for so long.
IDLE_ASKED_EVERY = timedelta(seconds=30)
#: So long what pilots have left at a CE is a reason to ask it.
LEFT_LOOKED_FOR = timedelta(days=1)


def run_cycle(*, closings: ReadClosings, chance: Random, now: datetime) -> Collection[int]:
    """Commit the pilots that are wanted now, to be submitted; return the CEs, as primary keys, that get some.

    A pilot is a row before any CE hears of it: whatever dies in between, at most a pilot is left that its CE knows
    nothing of, and the status agent ends that.

    Args:
        closings: reads what throttles and limits leave; the jobs at a site are counted above this app.
        chance: of all draws.
        now: the time.
    """
    # Read outside of the transaction, in which it would have to be read anew for it alone.
    snapshot = index.renewed()
    with transaction.atomic(durable=True):
        # Of two directors one would have to look after the other has decided; the next cycle is soon.
        if not try_lock(LockKey.SEND_PILOTS):
            return frozenset()
        planned = provisioning.provision(
            open_queues(now=now), snapshot, slots=free_slots(now=now), closings=closings, chance=chance, now=now
        )
        _commit(planned, now=now)
    return frozenset(one.queue.ce_id for one in planned)


@transaction_required
def _commit(planned: Sequence[PlannedPilot], *, now: datetime) -> None:
    # Pilots at one queue are mostly for the same slot.
    slots = {one.slot: asdict(one.slot) for one in planned}
    rows = [
        {
            "vo_id": one.vo_id,
            "group_id": one.group_id,
            "owner_id": one.owner_id,
            "queue_id": one.queue.pk,
            "stamp": uuid4().hex,
            "slot": slots[one.slot],
            "submitted_at": now.isoformat(),
        }
        for one in planned
    ]
    issue_secrets([Pilot(pk=pk, stamp=stamp) for stamp, pk in sql.insert_pilots(rows).items()], now=now)


def begin_rounds(*, now: datetime) -> Collection[int]:
    """Return the CEs, as primary keys, that have pilots or could get some and are to be asked now.

    Noted is that there is somebody to hear pilots: when there was nobody, their silence says nothing.
    """
    DirectorRun.objects.update_or_create(pk=1, defaults={"ran_at": now, "running_since": heard_since(now=now)})
    ce_changes.note_changes(ce_changes.held_back(), now=now)
    living = Pilot.objects.filter(queue__ce=OuterRef("pk"), ended_at=None)
    health = CEHealth.objects.filter(ce=OuterRef("pk"))
    asleep = health.filter(left_alone(now=now))
    answered = health.filter(asked_at__gt=now - IDLE_ASKED_EVERY, failures=0)
    # Uses index: pilot_not_cleaned_at_queue. How they ended may be a reason to send no more.
    ended = Pilot.objects.filter(queue__ce=OuterRef("pk"), cleaned_at=None, ended_at__gte=OuterRef("health__asked_at"))
    # Uses index: pilot_not_cleaned_at_queue. What they left is removed also where nothing is sent any more.
    long_ended = Pilot.objects.filter(queue__ce=OuterRef("pk"), cleaned_at=None, secret__isnull=False)
    left = long_ended.filter(ended_at__range=(now - LEFT_LOOKED_FOR, now - CLEANED_AFTER))
    at_open_queues = {queue.ce_id for queue in open_queues(now=now)}
    could_get_some = Q(pk__in=at_open_queues) & ~Exists(answered)
    # Pilots are heard, or not, also where the type of the CE is none that can be asked.
    can_be_asked = Q(type__in=settings.WMS_BACKENDS) & (Exists(ended) | Exists(left) | could_get_some)
    awake = ComputingElement.objects.filter(~Exists(asleep))
    return frozenset(awake.filter(Exists(living) | can_be_asked).values_list("pk", flat=True))
