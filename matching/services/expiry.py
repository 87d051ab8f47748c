"""Expiry of leases: a silent job is marked Stalled, then its lease ends (docs/architecture.md, Leases)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q, Value
from django.db.models.functions import Greatest

from matching.models import ExpirerRun, Match
from matching.services.lease_ends import EndReason, end_unfinished
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from taskqueues.services.index.shared import index
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import transitions
from wms.kernel.db import LockKey, database_now, try_lock
from wms.kernel.memo import Memo

#: Missed heartbeats after which a job is Stalled.
MISSED_HEARTBEATS = 5
#: Time between two runs from which on the expirer itself was down. Not the grace period: with a shorter one every pause
#: between two runs, which are seconds apart, would be an outage, and no lease would ever end.
OUTAGE = timedelta(seconds=60)
#: Leases ended in one run; the next run, seconds later, ends the rest.
ENDED_AT_ONCE = 1000
_SOURCE = "lease expirer"


def expire_leases() -> int:
    """Mark silent jobs Stalled, end leases that have expired or whose pilot has ended; return how many were ended.

    While the expirer was down (an outage of the server), no pilot could renew its lease. After an outage each open
    lease is therefore first extended by it, or by the part of it since the lease was made or last renewed.
    """
    now = _lengthen_by_own_outage()
    if now is None:
        return 0  # another worker runs
    _mark_stalled(now=now)
    ending = over(now=now)
    # Before the transactions: inside a transaction the index keeps no memo.
    memo = index.current().memo if ending else {}
    return sum(_end_if_still_over(match_id, now=now, memo=memo) for match_id in ending)


def over(*, now: datetime) -> Sequence[UUID]:
    """Return open leases that have expired or whose pilot has ended, ENDED_AT_ONCE at most."""
    alive = Pilot.objects.filter(ended_at__isnull=True).values("pk")
    # Uses index: match_open. NB: by a join with pilots, or in another order, PostgreSQL reads all leases ever made.
    due = Match.objects.filter(_expired(now) | ~Q(pilot__in=alive), ended_at__isnull=True).order_by("pilot_id")
    return list(due.values_list("pk", flat=True)[:ENDED_AT_ONCE])


def _expired(now: datetime) -> Q:
    return Q(expires_at__lt=now - timedelta(seconds=settings.WMS_LEASE_GRACE_S))


def _lengthen_by_own_outage() -> datetime | None:
    with transaction.atomic(durable=True):
        if not try_lock(LockKey.EXPIRE_LEASES):
            return None
        now = database_now()
        last = ExpirerRun.objects.first()
        gap = now - last.ran_at if last is not None else timedelta()
        if last is not None and gap > OUTAGE:
            # NB: GREATEST ignores nulls (a lease never renewed).
            last_sign = Greatest(Value(last.ran_at), F("leased_at"), F("reported_at"))
            lost = ExpressionWrapper(Value(now) - last_sign, output_field=DurationField())
            Match.objects.filter(ended_at__isnull=True).update(
                expires_at=F("expires_at") + lost, reported_at=F("reported_at") + lost
            )
        ExpirerRun.objects.update_or_create(pk=1, defaults={"ran_at": now})
        return now


def _mark_stalled(*, now: datetime) -> None:
    silent_since = now - timedelta(seconds=MISSED_HEARTBEATS * settings.WMS_HEARTBEAT_S)
    silent = Match.objects.filter(ended_at__isnull=True, reported_at__lt=silent_since)
    running = [JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING]
    with transaction.atomic(durable=True):
        seen = silent.filter(job__status__in=running).values_list("job_id", flat=True)
        locked = Job.objects.filter(pk__in=list(seen)).order_by("pk").select_for_update(of=("self",))
        # Checked again under the locks: heartbeats may have come in between.
        still = silent.filter(job__in=list(locked.values_list("pk", flat=True)))
        transitions.record(
            list(still.values_list("job_id", flat=True)),
            status=JobStatus.STALLED,
            minor=f"{MISSED_HEARTBEATS} heartbeats missed",
            source=_SOURCE,
            now=now,
        )


def _end_if_still_over(match_id: UUID, *, now: datetime, memo: Memo) -> bool:
    with transaction.atomic(durable=True):
        job_id = Match.objects.values_list("job_id", flat=True).get(pk=match_id)
        job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
        # Checked again under the lock: a heartbeat may have come in between.
        match = (
            Match.objects.filter(_expired(now) | Q(pilot__ended_at__isnull=False), pk=match_id, ended_at__isnull=True)
            .select_related("pilot")
            .select_for_update(of=("self",))
            .first()
        )
        if match is None:
            return False
        ended = match.pilot.ended_at is not None
        end_unfinished(
            match,
            job,
            reason=EndReason.PILOT_ENDED if ended else EndReason.EXPIRED,
            minor="Its pilot ended" if ended else "No heartbeat from its pilot",
            source=_SOURCE,
            now=now,
            memo=memo,
            died=_died(match),
        )
        return True


def _died(match: Match) -> bool:
    """Return whether the pilot died, as far as is known.

    Silence alone may be a network failure: it is a death only if other pilots of its queue reported in the meantime. If
    the pilot reports later, it did not die (``leases``).
    """
    pilot, silent_since = match.pilot, _silent_since(match)
    if pilot.revoked_at is not None or pilot.drained_at is not None or silent_since is None:
        return False
    if pilot.ended_at is not None and (pilot.status != PilotStatus.LOST or pilot.ended_at < silent_since):
        return pilot.died
    if pilot.queue_id is None or (pilot.ended_at is not None and not pilot.died):
        return False
    # Uses index: pilot_alive_at_queue.
    others = Pilot.objects.filter(queue=pilot.queue_id, ended_at__isnull=True).exclude(pk=pilot.pk)
    return others.filter(last_seen_at__gt=silent_since).exists()


def _silent_since(match: Match) -> datetime | None:
    """Return the time from which the pilot's silence is no coincidence; None: its payload never started."""
    missed = timedelta(seconds=MISSED_HEARTBEATS * settings.WMS_HEARTBEAT_S)
    return None if match.reported_at is None else match.reported_at + missed
