"""Submit pools: a VO's distinct resource requirements of jobs, and the queues that satisfy them (RFC7).

A change that affects eligibility marks the VO (``mark_stale``) in its transaction; the refresh follows, started at once
and periodically. An advisory lock lets one refresh run for each VO; pools are locked only while changes are
written.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet

from resources.domain.eligibility import Supply
from resources.domain.requirements import canonical, submit_pool_id
from resources.queries.eligible_queues import supply_of
from taskqueues import sql
from taskqueues.models import StaleSubmitPools, SubmitPool, TaskQueue
from wms.accounts.models import VO
from wms.kernel.db import LockKey, lock, transaction_required

#: Least time between two writes of a pool's last use: if every submission wrote it, they would wait for each other.
USE_IS_NOTED_EVERY = timedelta(minutes=1)
#: Pools removed in one transaction: submissions that need one of them wait for it.
REMOVED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPool:
    """The pool of a job's requirements, and the number of queues that satisfy them now."""

    id: str
    queues: int


# ---- Registration ----------------------------------------------------------------------------------------------------


@transaction_required
def register(*, vo: VO, requirements: object, now: datetime) -> RegisteredPool:
    """Return the VO's pool of these requirements, created if it is new; as ``register_all``."""
    (pool,) = register_all(vo=vo, requirements=[requirements], now=now)
    return pool


@transaction_required
def register_all(*, vo: VO, requirements: Sequence[object], now: datetime) -> list[RegisteredPool]:
    """Return the VO's pool of each of these requirements, created if it is new.

    The pools cannot be removed before the end of the transaction, so that the task queue that names one finds it. The
    resources are read once for all new pools.

    Raises:
        RequirementsError: some of the requirements are not valid.
    """
    forms = [canonical(names) for names in requirements]
    ids = [submit_pool_id(vo.name, form) for form in forms]
    form_of = dict(zip(ids, forms, strict=True))
    new = []
    # In one order for all: otherwise two requests that create the same pools could deadlock.
    for pool_id in sorted(form_of):
        while not sql.keep_pool(pool_id):
            # NB: otherwise it is another's, with its queues, or was and is removed again: nothing of it is locked here.
            if sql.insert_pool(pool_id, vo_id=vo.pk, requirements=form_of[pool_id], now=now):
                new.append(pool_id)
    if new:
        supply = supply_of(vo)
        sql.add_members({pool_id: supply.eligible(form_of[pool_id]) for pool_id in new})
        # A resource that changes while this transaction is open is not seen here, nor does the refresh that follows the
        # change see the pool.
        StaleSubmitPools.objects.bulk_create([StaleSubmitPools(vo=vo, pool=pool_id, changed_at=now) for pool_id in new])
    queues = dict(_keep_in_use(form_of, now=now).annotate(count=Count("queues")).values_list("pk", "count"))
    return [RegisteredPool(id=pool_id, queues=queues[pool_id]) for pool_id in ids]


@transaction_required
def keep_named(pool_ids: Collection[str], *, vo: VO, now: datetime) -> Mapping[str, int]:
    """Keep the existing ones of these pools, for jobs that name them; return the number of queues of each."""
    existing = SubmitPool.objects.filter(vo=vo, pk__in=pool_ids).order_by("pk").values_list("pk", flat=True)
    locked_ids = [pool_id for pool_id in list(existing) if sql.keep_pool(pool_id)]
    return dict(_keep_in_use(locked_ids, now=now).annotate(count=Count("queues")).values_list("pk", "count"))


def _keep_in_use(pool_ids: Iterable[str], *, now: datetime) -> QuerySet[SubmitPool]:
    pools = SubmitPool.objects.filter(pk__in=list(pool_ids))
    _note(pools.filter(last_used_at__lt=now - USE_IS_NOTED_EVERY), now=now)
    return pools


def _note(pools: QuerySet[SubmitPool], *, now: datetime) -> None:
    """Record that the pools are used now; locked in the common order."""
    held = pools.order_by("vo", "pk").select_for_update(of=("self",), no_key=True)
    noted = list(held.values_list("pk", flat=True))
    SubmitPool.objects.filter(pk__in=noted).update(last_used_at=now)


# ---- Refresh ---------------------------------------------------------------------------------------------------------


@transaction_required
def mark_stale(vos: Iterable[VO] | None, *, now: datetime) -> None:
    """Record a change of what decides where jobs of these VOs (None: of every VO) are eligible.

    A VO without pools needs no mark: a pool that is being created marks the VO itself.
    """
    concerned = VO.objects.filter(Exists(SubmitPool.objects.filter(vo=OuterRef("pk"))))
    if vos is not None:
        concerned = concerned.filter(pk__in=[vo.pk for vo in vos])
    StaleSubmitPools.objects.bulk_create([StaleSubmitPools(vo=vo, changed_at=now) for vo in concerned.order_by("pk")])


@transaction_required
def hold_refreshes() -> None:
    """Prevent refreshes beside this transaction, which deletes queues; call it before anything else is locked.

    Both would delete the same memberships, in different orders.
    """
    lock(LockKey.REFRESH_SUBMIT_POOLS)


def refresh_stale(*, now: datetime) -> int:
    """Refresh the marked pools; return the number. Without marks, one query of an empty table."""
    stale = VO.objects.filter(pk__in=StaleSubmitPools.objects.values("vo")).order_by("pk")
    return sum(_refresh_vo(vo, now=now, only_stale=True) for vo in stale)


def refresh_all(*, now: datetime) -> int:
    """Refresh every pool (RFC7, "at regular intervals"); return the number."""
    vos = VO.objects.filter(Exists(SubmitPool.objects.filter(vo=OuterRef("pk")))).order_by("pk")
    return sum(_refresh_vo(vo, now=now, only_stale=False) for vo in vos)


def _refresh_vo(vo: VO, *, now: datetime, only_stale: bool) -> int:
    with transaction.atomic(durable=True):
        lock(LockKey.REFRESH_SUBMIT_POOLS)
        # Marks written from here on belong to the next run, so the marks are read before the data.
        marks = dict(StaleSubmitPools.objects.filter(vo=vo).values_list("pk", "pool"))
        if only_stale and not marks:
            return 0
        pools = SubmitPool.objects.filter(vo=vo)
        if only_stale and "" not in marks.values():
            pools = pools.filter(pk__in=set(marks.values()))
        refreshed = _refresh(pools, supply=supply_of(vo), now=now)
        StaleSubmitPools.objects.filter(pk__among=marks).delete()
        return refreshed


def _refresh(pools: QuerySet[SubmitPool], *, supply: Supply, now: datetime) -> int:
    """Write the queues added to and removed from pools; return the number of pools."""
    requirements = dict(pools.values_list("pk", "requirements"))
    members = sql.members_of_pools(requirements)
    added: dict[str, Collection[int]] = {}
    gone: dict[str, Collection[int]] = {}
    for pool_id, form in requirements.items():
        before, after = members.get(pool_id, []), supply.eligible(form)
        if before != after:
            added[pool_id] = sorted({*after}.difference(before))
            gone[pool_id] = sorted({*before}.difference(after))
    # Only from here on do submissions that need these pools wait.
    living = sql.note_refreshed(requirements, now=now)
    sql.remove_members({pool_id: queues for pool_id, queues in gone.items() if pool_id in living})
    sql.add_members({pool_id: queues for pool_id, queues in added.items() if pool_id in living})
    return len(living)


# ---- Removal ---------------------------------------------------------------------------------------------------------


def remove_unused(*, now: datetime, in_use: Callable[[Collection[str]], Collection[str]]) -> int:
    """Remove the pools that no job has needed for the period of grace (RFC7); return the number.

    Args:
        now: the time.
        in_use: returns which of the pools are named by jobs outside task queues; an upper layer knows them.
    """
    with transaction.atomic(durable=True):
        _note_use(now=now, in_use=in_use)
    with transaction.atomic(durable=True):
        unused = SubmitPool.objects.filter(last_used_at__lt=now - timedelta(seconds=settings.WMS_SUBMIT_POOL_GRACE_S))
        seen = unused.order_by("vo", "pk").select_for_update(skip_locked=True, of=("self",))
        locked = list(seen.values_list("pk", flat=True)[:REMOVED_AT_ONCE])
        # Checked in new statements: a task queue that names one may have been committed before the lock was taken. From
        # here on no job enters a task queue that needs one of them; a job that leaves its task queue for a pilot after
        # the first check was seen by it, and one that left before is seen by the second.
        unneeded = set(locked) - _waited_for(locked) if locked else set()
        removed = unneeded - set(in_use(unneeded)) if unneeded else set()
        SubmitPool.objects.filter(pk__in=removed).delete()
        return len(removed)


def _note_use(*, now: datetime, in_use: Callable[[Collection[str]], Collection[str]]) -> None:
    """Restart the period of grace of the pools that jobs need, which may have waited for days."""
    unnoted = set(SubmitPool.objects.filter(last_used_at__lt=now - USE_IS_NOTED_EVERY).values_list("pk", flat=True))
    if not unnoted:
        return
    needed = _waited_for(unnoted)
    needed.update(in_use(unnoted - needed) if unnoted > needed else ())
    _note(SubmitPool.objects.filter(pk__in=needed & unnoted), now=now)


def _waited_for(pool_ids: Collection[str]) -> set[str]:
    named = TaskQueue.objects.filter(submit_pools__overlap=list(pool_ids)).values_list("submit_pools", flat=True)
    return {pool_id for pools in named.iterator() for pool_id in pools}.intersection(pool_ids)
