"""One cycle of the directors: decide and commit, start the pilots, commit what came of it (PIL §2.3; STYLE 21)."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from uuid import uuid4

from django.db import transaction

from pilots.backends.interface import PilotOrder, Submission
from pilots.domain import PilotStatus
from pilots.domain.pauses import paused_until
from pilots.models import Pilot
from pilots.queries import latest_outcomes, open_queues
from pilots.services import planning
from pilots.services.fleet import BACKENDS, Fleet
from pilots.services.reports import end_pilot
from pilots.services.secrets import issue_secrets
from resources.models import ComputingElement, Queue
from taskqueues.services.closings import ReadClosings
from wms.accounts.models import VO
from wms.kernel.db import LockKey, lock

logger = logging.getLogger(__name__)

Orders = Mapping[ComputingElement, Sequence[PilotOrder]]


def provision(fleet: Fleet, *, closings: ReadClosings, chance: Random, now: datetime) -> int:
    """Send the pilots that are wanted now; return how many a CE has accepted.

    A director that dies at any point of it leaves at most pilots that its CE knows nothing of; the status agent ends
    those.

    Args:
        fleet: the CEs.
        closings: reads what throttles and limits leave; the jobs at a site are counted above this app.
        chance: of all draws.
        now: the time.
    """
    queues = open_queues(types=BACKENDS.keys(), now=now)
    slots = {ce.pk: fleet.capacity(ce) for ce in _ces_at_work(queues, now=now)}
    accepted = 0
    for ce, orders in _decide(queues, slots=slots, closings=closings, chance=chance, now=now).items():
        submissions = fleet.submit(ce, orders)
        _conclude(submissions, now=now)
        accepted += sum(not submission.error for submission in submissions)
    return accepted


def _ces_at_work(queues: Sequence[Queue], *, now: datetime) -> Sequence[ComputingElement]:
    """Return the CEs of *queues* that do not pause after failures."""
    ces = {queue.ce_id: queue.ce for queue in queues}
    return [ce for ce in ces.values() if (until := paused_until(latest_outcomes(ce, now=now))) is None or until <= now]


@transaction.atomic(durable=True)
def _decide(
    queues: Sequence[Queue], *, slots: Mapping[int, int], closings: ReadClosings, chance: Random, now: datetime
) -> Orders:
    """Commit the pilots that are about to be submitted, and return the orders for them."""
    # Of two directors one looks after the other has decided, or together they would exceed the limits.
    lock(LockKey.SEND_PILOTS)
    planned = planning.plan(queues, slots=slots, closings=closings, chance=chance, now=now)
    pilots = Pilot.objects.bulk_create(
        Pilot(
            vo_id=one.vo_id,
            group_id=one.group_id,
            owner_id=one.owner_id,
            queue=one.queue,
            stamp=uuid4().hex,
            status=PilotStatus.SUBMITTED,
            submitted_at=now,
        )
        for one in planned
    )
    secrets = issue_secrets(pilots, now=now)
    vos = dict(VO.objects.filter(pk__in={one.vo_id for one in planned}).values_list("pk", "name"))
    orders: dict[ComputingElement, list[PilotOrder]] = {}
    for pilot, one in zip(pilots, planned, strict=True):
        ce = one.queue.ce
        order = PilotOrder(
            stamp=pilot.stamp,
            secret=secrets[pilot.pk],
            vo=vos[one.vo_id],
            site=ce.site.name,
            ce=ce.name,
            queue=one.queue.name,
        )
        orders.setdefault(ce, []).append(order)
    return orders


@transaction.atomic(durable=True)
def _conclude(submissions: Sequence[Submission], *, now: datetime) -> None:
    """Note by which id the CE knows each pilot, or end it; one may be running, or have ended, by now."""
    for submission in submissions:
        pilot_id = Pilot.objects.values_list("pk", flat=True).get(stamp=submission.stamp, secret__isnull=False)
        if submission.error:
            end_pilot(pilot_id, status=PilotStatus.ABORTED, reason=submission.error, now=now)
            continue
        Pilot.objects.filter(pk=pilot_id).update(batch_id=submission.batch_id)
        Pilot.objects.filter(pk=pilot_id, status=PilotStatus.SUBMITTED).update(status=PilotStatus.WAITING)
        logger.info("pilot.submitted", extra={"pilot_id": pilot_id, "batch_id": submission.batch_id})
