"""The match: one request of a pilot in, leases on the jobs that fit it best out (TQM, PIL, DESIGN §3.5)."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from django.conf import settings
from django.db import transaction

from matching.models import Match
from matching.services.claim import claim
from matching.services.offers import OfferRequest, of_pilot
from pilots.domain import PilotStatus
from pilots.models import Pilot
from resources.queries import Place
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import QueuedJob
from taskqueues.services import queueing
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import transitions
from wms.kernel.db import database_now
from wms.kernel.errors import ForbiddenError

logger = logging.getLogger(__name__)


class PilotNotWelcomeError(ForbiddenError):
    """The pilot has ended, or its credentials were revoked; it gets no job any more."""

    code = "pilot_not_welcome"


def match(request: OfferRequest, *, request_id: UUID, pilot_id: int, max_jobs: int, chance: Random) -> Sequence[Match]:
    """Lease to the pilot up to *max_jobs* waiting jobs that fit it best; none when nothing fits.

    Jobs are drawn one after another, each takes its processors and memory from what is left. The same request of the
    same pilot gets the same leases.

    Args:
        request: what the pilot offers.
        request_id: by which a request that is asked again, its answer having been lost, is known.
        pilot_id: who asks.
        max_jobs: ≥ 1.
        chance: of the draws among jobs.

    Returns:
        The leases in the order of the draws, with job, owner and group.

    Raises:
        PilotNotWelcomeError: the pilot has ended or is revoked.
        RejectedError, ForbiddenError: the offer names what does not exist, or is not the pilot's (``offers``).
    """
    with transaction.atomic(durable=True):
        now = database_now()
        pilot = _lock_welcome(pilot_id)
        leases = Match.objects.filter(pilot=pilot, request_id=request_id)
        drained: set[int] = set()
        if not leases.exists():
            offer, place = of_pilot(request, pilot=pilot, now=now)
            given = 0
            while taken := _take(offer, at_most=max_jobs - given, chance=chance):
                drained.update(job.task_queue_id for job in taken)
                moved = _mark_matched(taken, pilot=pilot, place=place, now=now)
                for ordinal, job in enumerate(moved, start=given):
                    _lease(job, pilot, place, request_id, ordinal=ordinal, now=now)
                given += len(moved)
                if len(moved) == len(taken):
                    break
                for job in moved:
                    offer = _what_is_left(offer, job)
            _flag(pilot, matched=given > 0, now=now)
        answer = list(leases.select_related("job__owner", "job__group").order_by("ordinal"))
    if drained:
        queueing.remove_empty(now=now, task_queue_ids=drained)
    return answer


def _lock_welcome(pilot_id: int) -> Pilot:
    pilot = Pilot.objects.select_for_update(of=("self",)).filter(pk=pilot_id).first()
    if pilot is None:
        raise PilotNotWelcomeError("This pilot is not known any more; register again.")
    if pilot.revoked_at is not None:
        raise PilotNotWelcomeError("The credentials of this pilot were revoked; leave.")
    if pilot.ended_at is not None:
        raise PilotNotWelcomeError(f"This pilot has ended ({pilot.status}); leave.")
    return pilot


def _take(offer: ResourceOffer, *, at_most: int, chance: Random) -> list[QueuedJob]:
    """Draw jobs one after another, each from what those before it leave of the offer; take them out of their queues."""
    taken: list[QueuedJob] = []
    while (job := claim(offer, chance=chance, may_wait=not taken)) is not None:
        taken.append(job)
        if len(taken) == at_most:
            break
        offer = _what_is_left(offer, job)
    return taken


def _mark_matched(taken: Sequence[QueuedJob], *, pilot: Pilot, place: Place, now: datetime) -> list[QueuedJob]:
    """Move the jobs and return those that moved; one that does not wait, which must not be, stops no others.

    All at once, after all were drawn: rows of jobs are locked in the order of their ids, not in that of the draws.
    """
    recorded = transitions.record(
        [job.job_id for job in taken],
        status=JobStatus.MATCHED,
        minor=f"At {place.site.name}" if place.site is not None else "",
        source=f"pilot {pilot.pk}",
        now=now,
        also={
            "site_id": None if place.site is None else place.site.pk,
            "queue_id": None if place.queue is None else place.queue.pk,
            "pilot_id": pilot.pk,
            "matched_at": now,
        },
    )
    for stray in (job.job_id for job in taken if job.job_id not in recorded.moved):
        logger.error("match.job_in_queue_does_not_wait", extra={"job_id": stray})
    return [job for job in taken if job.job_id in recorded.moved]


def _lease(taken: QueuedJob, pilot: Pilot, place: Place, request_id: UUID, *, ordinal: int, now: datetime) -> None:
    Match.objects.create(
        job_id=taken.job_id,
        pilot=pilot,
        request_id=request_id,
        ordinal=ordinal,
        queue=place.queue,
        leased_at=now,
        expires_at=now + timedelta(seconds=settings.WMS_LEASE_FIRST_S),
    )


def _flag(pilot: Pilot, *, matched: bool, now: datetime) -> None:
    """Note that the pilot was heard of, and with its first job, at once, that it has matched (PIL §2.3)."""
    Pilot.objects.filter(pk=pilot.pk).update(
        status=PilotStatus.RUNNING,
        matched_at=pilot.matched_at or (now if matched else None),
        started_at=pilot.started_at or now,
        last_seen_at=now,
    )


def _what_is_left(offer: ResourceOffer, taken: QueuedJob) -> ResourceOffer:
    # What the job itself asks, not what its queue rounds that up to. Nobody can change it while it is out of its queue.
    wanted = Job.objects.values_list("description", flat=True).filter(pk=taken.job_id).first()
    if wanted is None:
        return offer
    return replace(
        offer, processors=offer.processors - wanted["processors"], memory_mb=offer.memory_mb - wanted["memory_mb"]
    )
