"""One cycle of the directors: decide how many pilots are sent where and commit them; rounds at the CEs submit them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from random import Random
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from pilots import sql
from pilots.domain.decisions import QueueDecision
from pilots.models import CEHealth, DirectorRun, Pilot
from pilots.queries import directors_running_since, free_slots, open_queues, without_rounds
from pilots.services import ce_changes, provisioning
from pilots.services.provisioning import PlannedPilot
from pilots.services.secrets import issue_secrets
from pilots.services.status_agent import CLEANED_AFTER
from resources.models import ComputingElement, Queue
from taskqueues.services.index.shared import index
from taskqueues.services.restrictions import ReadClosings
from wms.kernel.db import LockKey, transaction_required, try_lock

#: Time between two rounds at a CE without pilots, which only read its free capacity.
IDLE_ASKED_EVERY = timedelta(seconds=30)
#: Time after the end of a pilot during which files left at its CE cause a round.
LEFT_LOOKED_FOR = timedelta(days=1)


def run_cycle(*, closings: ReadClosings, chance: Random, now: datetime) -> Collection[int]:
    """Commit the pilots that are wanted now, to be submitted; return the primary keys of their CEs.

    The row of a pilot is committed before its CE gets it: after a crash in between, at most a row is left whose pilot
    the CE does not have, and the status agent ends that.

    Args:
        closings: reads what throttles and limits leave; handed in, because the jobs at a site are counted above this
            app.
        chance: of all random draws.
        now: the time.
    """
    # Outside of the transaction, where the index would be read anew for it alone.
    snapshot = index.renewed()
    with transaction.atomic(durable=True):
        # A second director would have to wait for the decisions of the first; the next cycle comes soon.
        if not try_lock(LockKey.SEND_PILOTS):
            return frozenset()
        plan = provisioning.provision(
            open_queues(now=now), snapshot, slots=free_slots(now=now), closings=closings, chance=chance, now=now
        )
        _commit(plan.pilots, now=now)
        _note_decisions(plan.decisions, now=now)
    return frozenset(pilot.queue.ce_id for pilot in plan.pilots)


@transaction_required
def _commit(planned: Sequence[PlannedPilot], *, now: datetime) -> None:
    # Pilots at one queue mostly have the same slot.
    slots = {pilot.slot: asdict(pilot.slot) for pilot in planned}
    rows = [
        {
            "vo_id": pilot.vo_id,
            "group_id": pilot.group_id,
            "owner_id": pilot.owner_id,
            "queue_id": pilot.queue.pk,
            "setup": pilot.setup,
            "stamp": uuid4().hex,
            "slot": slots[pilot.slot],
            "submitted_at": now.isoformat(),
        }
        for pilot in planned
    ]
    issue_secrets([Pilot(pk=pk, stamp=stamp) for stamp, pk in sql.insert_pilots(rows).items()], now=now)


@transaction_required
def _note_decisions(decisions: Sequence[tuple[Queue, QueueDecision]], *, now: datetime) -> None:
    """Store what was decided, with one statement; rows of computing elements about which nothing changed stay."""
    queues: defaultdict[int, dict[int, Sequence[object]]] = defaultdict(dict)
    for queue, decision in decisions:
        queues[queue.ce_id][queue.pk] = [decision.wanted, decision.sent, decision.why_none]
    sql.store_decisions(
        {"ce_id": ce_id, "decided_at": now.isoformat(), "queues": of_ce} for ce_id, of_ce in queues.items()
    )


def begin_rounds(*, now: datetime) -> Collection[int]:
    """Return the primary keys of the CEs that need a round now: they have pilots or could get some.

    Also stores the time of this cycle: the silence of pilots counts only while cycles run.
    """
    DirectorRun.objects.update_or_create(
        pk=1, defaults={"ran_at": now, "running_since": directors_running_since(now=now)}
    )
    ce_changes.note_changes(ce_changes.held_back(), now=now)
    living = Pilot.objects.filter(queue__ce=OuterRef("pk"), ended_at=None)
    health = CEHealth.objects.filter(ce=OuterRef("pk"))
    paused = health.filter(without_rounds(now=now))
    answered = health.filter(asked_at__gt=now - IDLE_ASKED_EVERY, failures=0)
    # Uses index: pilot_not_cleaned_at_queue. Their outcomes may pause the CE.
    ended = Pilot.objects.filter(queue__ce=OuterRef("pk"), cleaned_at=None, ended_at__gte=OuterRef("health__asked_at"))
    # Uses index: pilot_not_cleaned_at_queue. Files that they left are removed also where no pilots are sent any more.
    cleanable = Pilot.objects.filter(queue__ce=OuterRef("pk"), cleaned_at=None, secret__isnull=False)
    left = cleanable.filter(ended_at__range=(now - LEFT_LOOKED_FOR, now - CLEANED_AFTER))
    at_open_queues = {queue.ce_id for queue in open_queues(now=now)}
    could_get_some = Q(pk__in=at_open_queues) & ~Exists(answered)
    # CEs of a type without a backend have rounds too while they have pilots, to end those that fall silent.
    can_be_asked = Q(type__in=settings.WMS_BACKENDS) & (Exists(ended) | Exists(left) | could_get_some)
    not_paused = ComputingElement.objects.filter(~Exists(paused))
    return frozenset(not_paused.filter(Exists(living) | can_be_asked).values_list("pk", flat=True))
