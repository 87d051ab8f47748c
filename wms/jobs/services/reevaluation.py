"""Jobs that wait for files are looked at again when replicas come or go, or storage elements change their sites.

Those whose files are there wait for room in the quotas of waiting jobs, if these are full: they have not waited before.
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
from wms.jobs.models import PLACED, Job, JobQuerySet, SiteLayout
from wms.jobs.services import enqueueing, input_data
from wms.jobs.services.control import out_of_queues
from wms.jobs.services.transitions import Recorded
from wms.kernel.db import LockKey, transaction_required, try_lock

logger = logging.getLogger(__name__)

#: No transaction that takes in jobs lasts longer (DESIGN §4.6): what one of them overlooked is seen the second time.
LAG: Final = timedelta(seconds=60)
#: Changes of one transaction; each names one file, or all of a VO.
CHANGES_AT_ONCE: Final = 1000
#: Changes of one run.
CHANGES_OF_RUN: Final = 20_000
#: Jobs of one transaction: nobody waits longer than some tenths of a second for their rows.
JOBS_AT_ONCE: Final = 1000
#: Transactions of one run; the next one goes on after them.
PAGES_OF_RUN: Final = 50


def reevaluate(*, now: datetime) -> int:
    """Move those of the waiting jobs whose files came or went; return how many moved.

    A job that waits moves to the queue of the sites that are left, or is Checking when there are none; one that is
    Checking waits as soon as there are some, and room for it. Each change is looked at twice, the second time after
    LAG. Repeating it changes nothing; a second one at the same time leaves it to the first.
    """
    _mark_new_layout()
    # Those that come meanwhile are for the next run: LAG counts from *now*.
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
    """Look at some of the jobs, and note how far it came; None: nothing is left to do, or another is doing it."""
    if not try_lock(LockKey.REEVALUATE_INPUT_DATA):
        return None
    changes = list(_due(now=now).filter(pk__among=due)[:CHANGES_AT_ONCE])
    if not changes:
        return None
    # All of a batch have come equally far; one that was not finished goes first, and alone.
    after = changes[0].job_id
    changes = [change for change in changes if change.job_id == after]
    page = list(_affected(changes).filter(pk__gt=after).order_by("pk")[:JOBS_AT_ONCE])
    moved = _move_changed(page, now=now)
    if len(page) < JOBS_AT_ONCE:
        _finish(changes, now=now)
    else:
        ReplicaChange.objects.filter(pk__among=[change.pk for change in changes]).update(job_id=page[-1].pk)
    return moved


def _let_in(*, now: datetime) -> int:
    """Let jobs that wait for room in a quota of waiting jobs into their queues; return how many there was room for."""
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
            page += of_kind[: left if room is None else min(left, room)]
    return _move(page, let_in=_with_room(page), now=now) if page else 0


def _without_room() -> JobQuerySet:
    # Uses index: job_that_waits_for_room
    return Job.objects.filter(status=JobStatus.CHECKING, minor_status=WAITS_FOR_ROOM)


def _mark_new_layout() -> None:
    """Mark all files when storage elements belong to other sites than before, whoever changed that."""
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
    """Return the jobs that wait for any of the files."""
    # Uses index: job_of_input_file, or job_with_input_data for all files of a VO
    placed = Job.objects.placed_with_input_data()
    if any(change.vo_id is None for change in changes):
        return placed
    wanted = Q(vo__in={change.vo_id for change in changes if not change.lfn})
    named: dict[int | None, list[str]] = {}
    for change in changes:
        if change.lfn:
            named.setdefault(change.vo_id, []).append(change.lfn)
    for vo_id, lfns in named.items():
        wanted |= Q(vo=vo_id, description__input_data__has_any_keys=lfns)
    return placed.filter(wanted)


def _finish(changes: Sequence[ReplicaChange], *, now: datetime) -> None:
    """Forget the changes that were looked at a second time; the others are, when LAG has passed."""
    second = [change.pk for change in changes if change.looked_at is not None]
    first = [change.pk for change in changes if change.looked_at is None]
    ReplicaChange.objects.filter(pk__among=second).delete()
    ReplicaChange.objects.filter(pk__among=first).update(looked_at=now, job_id=0)


@transaction_required
def _move_changed(jobs: Sequence[Job], *, now: datetime) -> int:
    """Move those of the jobs, read a moment ago, whose files are at other sites than when they were placed."""
    holding = input_data.locate(jobs)
    changed = [job for job in jobs if _is_misplaced(job, holding[job.pk])]
    if not changed:
        return 0
    placed = [job for job in changed if input_data.where(job, holding) is not None]
    return _move(changed, let_in=_with_room(placed), now=now)


@transaction_required
def _with_room(jobs: Iterable[Job]) -> frozenset[int]:
    """Return those of the Checking ones that may wait; no others come in until the end of the transaction."""
    # Before any row is locked (wms.kernel.db); submissions do it in this order too.
    return quotas.within([(job.pk, QuotaKind.of(job)) for job in jobs if job.status == JobStatus.CHECKING])


@transaction_required
def _move(jobs: Sequence[Job], *, let_in: frozenset[int], now: datetime) -> int:
    """Put the jobs, read a moment ago, where they belong; return how many of them are elsewhere than before."""
    found: list[Job] = []

    def change() -> Recorded:
        # Locked; those that a pilot took meanwhile, or that were killed, are none of ours any more.
        locked = Job.objects.filter(pk__among=[job.pk for job in jobs], status__in=PLACED).order_by("pk")
        found[:] = list(locked.select_for_update(of=("self",)))
        return Recorded(moved={job.pk: JobStatus(job.status) for job in found}, refused={})

    held_back = queueing.held_back([job.pk for job in jobs])
    out_of_queues([job.pk for job in jobs], change)
    held_back = {**enqueueing.carried_by(found), **held_back}
    queued = enqueueing.put_back_in_queues(found, now=now, let_in=let_in, held_back=held_back)
    return sum(job.status == JobStatus.WAITING or job.pk in queued for job in found)


def _is_misplaced(job: Job, sites: tuple[str, ...]) -> bool:
    # One that waits though no site holds its files came into its queue before anybody asked where they are.
    return tuple(job.input_sites or ()) != sites or (job.status == JobStatus.WAITING and not sites)
