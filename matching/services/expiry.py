"""Expiry of leases: a silent job is marked Stalled, then its lease ends (docs/architecture.md, Leases)."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet, Value
from django.db.models.functions import Greatest

from matching.models import ExpirerRun, Match
from matching.services.lease_ends import EndReason, UnfinishedEnd, end_unfinished
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.queries import seen_since
from taskqueues.services.index.shared import index
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import transitions
from wms.kernel.db import LockKey, database_now, is_database_away, session_lock
from wms.kernel.memo import CachedLookups, Memo

logger = logging.getLogger(__name__)

#: Missed heartbeats after which a job is Stalled.
MISSED_HEARTBEATS = 5
#: Time between two runs from which on the expirer itself was down. Not the grace period: with a shorter one every pause
#: between two runs, which are seconds apart, would be an outage, and no lease would ever end.
OUTAGE = timedelta(seconds=60)
#: Leases ended in one run, and jobs marked Stalled; the next run, seconds later, does the rest.
ENDED_AT_ONCE = 5000
#: Of these, in one transaction, whose locks pilots may wait for.
ENDED_TOGETHER = 250
_SOURCE = "lease expirer"
ItemT = TypeVar("ItemT", int, UUID)


def expire_leases() -> int:
    """Mark silent jobs Stalled, end leases that have expired or whose pilot has ended; return how many were ended.

    While the expirer was down (an outage of the server), no pilot could renew its lease. After an outage each open
    lease is therefore first extended by it, or by the part of it since the lease was made or last renewed.

    One run at a time: while another one works, this one does nothing.
    """
    with session_lock(LockKey.EXPIRE_LEASES, of=0, places=1) as is_alone:
        if not is_alone:
            return 0
        now = _lengthen_by_own_outage()
        _mark_stalled(now=now)
        ending = over(now=now)
        # Before the transactions: inside a transaction the index keeps no memo.
        memo = index.current().memo if ending else {}
        return sum(_each_part(partial(end_those_still_over, memo=memo), match_ids) for match_ids in _batches(ending))


def over(*, now: datetime) -> Sequence[UUID]:
    """Return open leases that have expired or whose pilot has ended, ENDED_AT_ONCE at most."""
    alive = Pilot.objects.filter(ended_at__isnull=True).values("pk")
    # Uses index: match_open. NB: by a join with pilots, or in another order, PostgreSQL reads all leases ever made.
    due = Match.objects.filter(_expired(now) | ~Q(pilot__in=alive), ended_at__isnull=True).order_by("pilot_id")
    return list(due.values_list("pk", flat=True)[:ENDED_AT_ONCE])


def _expired(now: datetime) -> Q:
    return Q(expires_at__lt=now - timedelta(seconds=settings.WMS_LEASE_GRACE_S))


def _batches(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    return (items[start : start + ENDED_TOGETHER] for start in range(0, len(items), ENDED_TOGETHER))


def _each_part(work: Callable[[Sequence[ItemT]], int], items: Sequence[ItemT]) -> int:
    """Return the sum of *work* on the items, or, where it fails, on halves of them, down to those that cannot be done.

    So that one lease or job whose data are damaged delays no other. Each failure of a single one is logged.

    Raises:
        DatabaseError: the database is away.
    """
    try:
        return work(items)
    except Exception as error:
        if is_database_away(error):
            raise
        if len(items) == 1:
            logger.exception("lease.not_expired", extra={"reason": f"{items[0]}: {error}"})
            return 0
        half = len(items) // 2
        return _each_part(work, items[:half]) + _each_part(work, items[half:])


def _note_run() -> datetime:
    """Record, with the transaction, that the expirer works, and return the time: a long run is no outage."""
    now = database_now()
    ExpirerRun.objects.update_or_create(pk=1, defaults={"ran_at": now})
    return now


def _lengthen_by_own_outage() -> datetime:
    with transaction.atomic(durable=True):
        last = ExpirerRun.objects.first()
        now = _note_run()
        if last is not None and now - last.ran_at > OUTAGE:
            # NB: GREATEST ignores nulls (a lease never renewed).
            last_sign = Greatest(Value(last.ran_at), F("leased_at"), F("reported_at"))
            lost = ExpressionWrapper(Value(now) - last_sign, output_field=DurationField())
            Match.objects.filter(ended_at__isnull=True).update(
                expires_at=F("expires_at") + lost, reported_at=F("reported_at") + lost
            )
        return now


def _mark_stalled(*, now: datetime) -> None:
    silent_since = now - timedelta(seconds=MISSED_HEARTBEATS * settings.WMS_HEARTBEAT_S)
    silent = Match.objects.filter(ended_at__isnull=True, reported_at__lt=silent_since)
    running = [JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING]
    seen = silent.filter(job__status__in=running).values_list("job_id", flat=True)
    for job_ids in _batches(sorted(seen[:ENDED_AT_ONCE])):
        _each_part(partial(_mark_those_still_silent, silent), job_ids)


def _mark_those_still_silent(silent: "QuerySet[Match]", job_ids: Sequence[int]) -> int:
    with transaction.atomic(durable=True):
        now = _note_run()
        # Checked again under the locks: heartbeats may have come in between.
        still = list(silent.filter(job__in=_locked(job_ids)).values_list("job_id", flat=True))
        minor = f"{MISSED_HEARTBEATS} heartbeats missed"
        transitions.record(still, status=JobStatus.STALLED, minor=minor, source=_SOURCE, now=now)
        return len(still)


def _locked(job_ids: Collection[int]) -> Collection[int]:
    """Lock the jobs, and return them; those that another transaction holds are left to the next run."""
    locked = Job.objects.filter(pk__among=job_ids).order_by("pk").select_for_update(of=("self",), skip_locked=True)
    return list(locked.values_list("pk", flat=True))


def end_those_still_over(match_ids: Collection[UUID], *, memo: Memo) -> int:
    """End those of the leases that are still over, in one transaction; return their number.

    Args:
        match_ids: leases that were over.
        memo: cache of the index for lookups of the configuration.
    """
    with transaction.atomic(durable=True):
        now = _note_run()
        jobs = _locked(Match.objects.filter(pk__in=match_ids).values_list("job_id", flat=True))
        # Checked again under the locks: heartbeats may have come in between.
        over_now = Match.objects.filter(_expired(now) | Q(pilot__ended_at__isnull=False), ended_at__isnull=True)
        locked = over_now.filter(pk__in=match_ids, job__in=jobs).order_by("job").select_for_update(of=("self",))
        lookups = CachedLookups({})
        ends = [
            UnfinishedEnd(
                match=match,
                reason=EndReason.EXPIRED if match.pilot.ended_at is None else EndReason.PILOT_ENDED,
                minor="No heartbeat from its pilot" if match.pilot.ended_at is None else "Its pilot ended",
                died=_died(match, lookups),
            )
            for match in locked.select_related("pilot")
        ]
        if ends:
            end_unfinished(ends, source=_SOURCE, now=now, memo=memo)
        return len(ends)


def _died(match: Match, lookups: CachedLookups) -> bool:
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
    return seen_since(silent_since, queue_id=pilot.queue_id, but=pilot.pk, lookups=lookups)


def _silent_since(match: Match) -> datetime | None:
    """Return the time from which the pilot's silence is no coincidence; None: its payload never started."""
    missed = timedelta(seconds=MISSED_HEARTBEATS * settings.WMS_HEARTBEAT_S)
    return None if match.reported_at is None else match.reported_at + missed
