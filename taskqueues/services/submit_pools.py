"""SubmitPools: a VO's distinct job requirements and the queues that satisfy them (RFC7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef

from resources.domain.requirements import Kinds, canonical, submit_pool_id
from resources.queries import DescribedQueue, described_queues, eligible_among, requirement_kinds
from taskqueues import sql
from taskqueues.models import SubmitPool, TaskQueue
from wms.accounts.models import VO
from wms.kernel.db import LockKey, lock, transaction_required

#: A pool's last use is written at most this often: every submission writing it would make them wait for each other.
USE_IS_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPool:
    """The pool of a job's requirements, and how many queues satisfy them at present."""

    id: str
    queues: int


@transaction_required
def register(*, vo: VO, requirements: object, now: datetime) -> RegisteredPool:
    """Return the VO's pool of these requirements, making it when it is the first of its kind; as ``register_all``."""
    (pool,) = register_all(vo=vo, requirements=[requirements], now=now)
    return pool


@transaction_required
def register_all(*, vo: VO, requirements: Sequence[object], now: datetime) -> list[RegisteredPool]:
    """Return the VO's pool of each of these requirements, making those that are the first of their kind.

    The pools cannot be removed before the end of the transaction, so that the queue which will name one finds it.
    The resources are looked at once, however many pools are new.

    Raises:
        RequirementsError: some of the requirements are not understood.
    """
    forms = [canonical(each) for each in requirements]
    wanted = {submit_pool_id(vo.name, form): form for form in forms}
    looked_at: tuple[list[DescribedQueue], Kinds] | None = None
    # In one order for all, or two requests that make the same pools would wait for each other.
    for pool_id in sorted(wanted):
        while not sql.keep_pool(pool_id):
            looked_at = looked_at or (described_queues(vo), requirement_kinds(vo))
            pool = SubmitPool(id=pool_id, vo=vo, requirements=wanted[pool_id], refreshed_at=now, last_used_at=now)
            # Of two that make it at once one waits here for the other, and then finds it.
            SubmitPool.objects.bulk_create([pool], ignore_conflicts=True)
            described, kinds = looked_at
            pool.queues.set(eligible_among(described, wanted[pool_id], kinds=kinds))
    pools = SubmitPool.objects.filter(pk__in=wanted)
    unnoted = pools.filter(last_used_at__lt=now - USE_IS_NOTED_EVERY).order_by("pk")
    noted = list(unnoted.select_for_update(of=("self",), no_key=True).values_list("pk", flat=True))
    SubmitPool.objects.filter(pk__in=noted).update(last_used_at=now)
    queues = dict(pools.annotate(count=Count("queues")).values_list("pk", "count"))
    ids = [submit_pool_id(vo.name, form) for form in forms]
    return [RegisteredPool(id=pool_id, queues=queues[pool_id]) for pool_id in ids]


@transaction_required
def refresh(*, now: datetime) -> None:
    """Find again which queues satisfy which pool: every 15 minutes, and when a resource has changed (RFC7)."""
    lock(LockKey.REFRESH_SUBMIT_POOLS)
    for vo in VO.objects.filter(submit_pools__isnull=False).distinct().order_by("pk"):
        described, kinds = described_queues(vo), requirement_kinds(vo)
        for pool in SubmitPool.objects.filter(vo=vo).order_by("pk"):
            pool.queues.set(eligible_among(described, pool.requirements, kinds=kinds))
    # In the order in which submissions note their use (by VO, then by id), or the two would wait for each other.
    list(SubmitPool.objects.order_by("vo", "pk").select_for_update(of=("self",), no_key=True).values_list("pk"))
    SubmitPool.objects.update(refreshed_at=now)


def refresh_all(*, now: datetime) -> None:
    """Refresh every pool, after removing those that no waiting job has needed for a while (RFC7)."""
    with transaction.atomic(durable=True):
        _remove_unused(now=now)
    with transaction.atomic(durable=True):
        refresh(now=now)


def _remove_unused(*, now: datetime) -> None:
    unused = SubmitPool.objects.filter(last_used_at__lt=now - timedelta(seconds=settings.WMS_SUBMIT_POOL_GRACE_S))
    needed = Exists(TaskQueue.objects.filter(submit_pools__contains=[OuterRef("pk")]))
    seen = unused.filter(~needed).order_by("pk").select_for_update(skip_locked=True, of=("self",))
    locked = list(seen.values_list("pk", flat=True))
    # Looked at again in a new statement: a queue that names it may have been committed before the lock was taken.
    SubmitPool.objects.filter(pk__in=locked).filter(~needed).delete()
