"""Re-evaluation of jobs with input data when replicas are added or removed, or storage elements change sites.

A Checking job whose input data become available waits only if the quotas of waiting jobs have room for it.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Min, Q, QuerySet

from resources.models import ReplicaChange
from resources.queries.replicas import site_layout
from resources.services import replicas
from taskqueues.services import queueing, quotas
from taskqueues.services.quotas import QuotaKind
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobQuerySet, SiteLayout
from wms.jobs.models.jobs import PLACED
from wms.jobs.queries import reads_any
from wms.jobs.services import enqueueing, input_data
from wms.jobs.services.control import out_of_queues
from wms.jobs.services.transitions import Recorded
from wms.kernel.db import LockKey, transaction_required, try_lock

logger = logging.getLogger(__name__)

#: Longer than any submitting transaction; each change is processed again after it, for jobs not committed before.
LAG: Final = timedelta(seconds=60)
#: Changes processed in one transaction; each names one file, or all of a VO.
CHANGES_AT_ONCE: Final = 1000
#: Changes processed in one run.
CHANGES_OF_RUN: Final = 20_000
#: Jobs of one transaction, which locks their rows for some tenths of a second.
JOBS_AT_ONCE: Final = 1000
#: Transactions of one run; the next run continues.
PAGES_OF_RUN: Final = 50


def reevaluate(*, now: datetime) -> int:
    """Move waiting jobs whose files were added or removed; return how many moved.

    A Waiting job moves to the task queue of its remaining sites, or becomes Checking if there are none; a Checking job
    waits as soon as there are sites and room for it. Each change is processed twice, the second time after LAG.
    Repeating it changes nothing; a simultaneous second run leaves the work to the first.
    """
    _mark_new_layout()
    # Later changes are for the next run: LAG counts from *now*.
    due = list(_due(now=now).values_list("pk", flat=True)[:CHANGES_OF_RUN])
    moved = 0
    for _ in range(PAGES_OF_RUN if due else 0):
        of_page = _look_at_page(due, now=now)
        if of_page is None:
            break
        moved += of_page
    moved += _let_in(now=now)
    if moved:
        logger.info("jobs.moved_after_their_data", extra={"moved": moved, "changes": len(due)})
    return moved


@transaction.atomic(durable=True)
def _look_at_page(due: Collection[int], *, now: datetime) -> int | None:
    """Process a page of the jobs and store the progress; None: nothing is left, or another run is under way."""
    if not try_lock(LockKey.REEVALUATE_INPUT_DATA):
        return None
    changes = list(_due(now=now).filter(pk__among=due)[:CHANGES_AT_ONCE])
    if not changes:
        return None
    # All changes of a batch have made equal progress; an unfinished batch continues first, and alone.
    after = changes[0].job_id
    changes = [change for change in changes if change.job_id == after]
    page = list(_affected(changes).filter(pk__gt=after).with_description().order_by("pk")[:JOBS_AT_ONCE])
    moved = _move_changed(page, now=now)
    if len(page) < JOBS_AT_ONCE:
        _finish(changes, now=now)
    else:
        ReplicaChange.objects.filter(pk__among=[change.pk for change in changes]).update(job_id=page[-1].pk)
    return moved


def _let_in(*, now: datetime) -> int:
    """Let Checking jobs that wait for a quota of waiting jobs into their task queues; return how many."""
    let_in = 0
    for _ in range(PAGES_OF_RUN if _without_room().exists() else 0):
        of_page = _let_page_in(now=now)
        let_in += of_page
        if of_page < JOBS_AT_ONCE:
            break
    return let_in


@transaction.atomic(durable=True)
def _let_page_in(*, now: datetime) -> int:
    if not try_lock(LockKey.REEVALUATE_INPUT_DATA):
        return 0
    waiting = _without_room()
    kinds = [
        QuotaKind(*row[:-1])
        for row in waiting.values_list("vo", "group", "owner", "job_type").annotate(first=Min("pk")).order_by("first")
    ]
    page: list[Job] = []
    for kind, room in quotas.room_of(kinds).items():
        left = JOBS_AT_ONCE - len(page)
        if left > 0 and (room is None or room > 0):
            of_kind = waiting.filter(group=kind.group_id, owner=kind.owner_id, job_type=kind.job_type).order_by("pk")
            page += of_kind.with_description()[: left if room is None else min(left, room)]
    return _move(page, let_in=_with_room(page), now=now) if page else 0


def _without_room() -> JobQuerySet:
    # Uses index: job_that_waits_for_room
    return Job.objects.filter(status=JobStatus.CHECKING, minor_status=WAITS_FOR_ROOM)


def _mark_new_layout() -> None:
    """Mark all files as changed if storage elements belong to other sites than before."""
    layout = site_layout()
    if SiteLayout.objects.filter(digest=layout).exists():
        return
    with transaction.atomic(durable=True):
        if try_lock(LockKey.REEVALUATE_INPUT_DATA):
            SiteLayout.objects.update_or_create(pk=1, defaults={"digest": layout})
            replicas.mark_every_file()


def _due(*, now: datetime) -> QuerySet[ReplicaChange]:
    due = Q(job_id__gt=0) | Q(looked_at__isnull=True) | Q(looked_at__lt=now - LAG)
    return ReplicaChange.objects.filter(due).order_by("-job_id", "pk")


def _affected(changes: Sequence[ReplicaChange]) -> JobQuerySet:
    """Return the placed jobs that read any of the files."""
    # Uses index: job_of_stored_description, or job_with_input_data for all files of a VO
    placed = Job.objects.placed_with_input_data()
    if any(change.vo_id is None for change in changes):
        return placed
    affected = Q(vo__in={change.vo_id for change in changes if not change.lfn})
    named: dict[int | None, list[str]] = {}
    for change in changes:
        if change.lfn:
            named.setdefault(change.vo_id, []).append(change.lfn)
    for vo_id, lfns in named.items():
        affected |= Q(vo=vo_id) & reads_any(lfns)
    return placed.filter(affected)


def _finish(changes: Sequence[ReplicaChange], *, now: datetime) -> None:
    """Delete changes that were processed twice; mark the others for a second time after LAG."""
    second = [change.pk for change in changes if change.looked_at is not None]
    first = [change.pk for change in changes if change.looked_at is None]
    ReplicaChange.objects.filter(pk__among=second).delete()
    ReplicaChange.objects.filter(pk__among=first).update(looked_at=now, job_id=0)


@transaction_required
def _move_changed(jobs: Sequence[Job], *, now: datetime) -> int:
    """Move those of the jobs, read a moment ago, whose files are at other sites than when the jobs were placed."""
    holding = input_data.locate(jobs)
    changed = [job for job in jobs if _is_misplaced(job, holding[job.pk])]
    if not changed:
        return 0
    placed = [job for job in changed if input_data.where(job, holding) is not None]
    return _move(changed, let_in=_with_room(placed), now=now)


@transaction_required
def _with_room(jobs: Iterable[Job]) -> frozenset[int]:
    """Return the Checking jobs that may wait; quotas admit no other jobs until the end of the transaction."""
    # Before any row is locked (wms.kernel.db); submissions lock in this order too.
    return quotas.within([(job.pk, QuotaKind.of(job)) for job in jobs if job.status == JobStatus.CHECKING])


@transaction_required
def _move(jobs: Sequence[Job], *, let_in: frozenset[int], now: datetime) -> int:
    """Put the jobs, read a moment ago, where they belong; return how many moved."""
    placed: list[Job] = []

    def change() -> Recorded:
        # Jobs that were matched or killed meanwhile are not among the locked ones.
        locked = Job.objects.filter(pk__among=[job.pk for job in jobs], status__in=PLACED).order_by("pk")
        placed[:] = list(locked.with_description().select_for_update(of=("self",)))
        return Recorded(moved={job.pk: JobStatus(job.status) for job in placed}, refused={})

    held_back = queueing.held_back([job.pk for job in jobs])
    out_of_queues([job.pk for job in jobs], change)
    held_back = {**enqueueing.carried_by(placed), **held_back}
    queued = enqueueing.put_back_in_queues(placed, now=now, let_in=let_in, held_back=held_back)
    return sum(job.status == JobStatus.WAITING or job.pk in queued for job in placed)


def _is_misplaced(job: Job, sites: tuple[str, ...]) -> bool:
    # A Waiting job without possible sites entered its task queue before input data were considered.
    return tuple(job.input_sites or ()) != sites or (job.status == JobStatus.WAITING and not sites)
