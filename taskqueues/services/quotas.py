"""Quotas: limits of waiting jobs of users, groups, VOs and job types (docs/architecture.md, Throttles and limits)."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Self

from taskqueues import sql
from taskqueues.domain.limits import Jobs, LimitScope
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words, scope_of, waiting_in
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import ConflictError


class QuotaExceededError(ConflictError):
    """With the jobs of the request more would wait than a quota allows."""

    code = "quota_exceeded"


class QuotaKind(NamedTuple):
    """The properties of a job that quotas use: jobs that share all of them count in the same quotas."""

    vo_id: int
    group_id: int
    owner_id: int
    job_type: str

    @classmethod
    def of(cls, job: Jobs) -> Self:
        """Return the kind of a job."""
        return cls(job.vo_id, job.group_id, job.owner_id, job.job_type)


@transaction_required
def refuse_beyond(*, vo_id: int, group_id: int, owner_id: int, coming: Mapping[str, int]) -> None:
    """Refuse jobs that exceed a quota; until the end of the transaction no other jobs enter.

    Jobs that will be Checking first count too. Jobs that waited before return whatever the quotas are: rescheduling
    must not lose a job.

    Args:
        vo_id, group_id, owner_id: of the jobs.
        coming: {job type: number of jobs}.

    Raises:
        QuotaExceededError: naming the quota.
    """
    kinds = [QuotaKind(vo_id, group_id, owner_id, job_type) for job_type in coming]
    for limit, scope in _limits(kinds).items():
        number = sum(coming[kind.job_type] for kind in kinds if scope.is_on(kind))
        _lock(limit)
        waiting = waiting_in(limit)
        if limit.waiting is not None and waiting + number > limit.waiting:
            raise QuotaExceededError(
                f"At most {limit.waiting} jobs of {limit_in_words(limit)} may wait; {waiting} wait, and {number} would "
                "be added. Submit fewer, or wait until some have run."
            )


@transaction_required
def within(coming: Sequence[tuple[int, QuotaKind]]) -> frozenset[int]:
    """Return which of the jobs may wait, the first ones first; until the end of the transaction no other jobs enter.

    Args:
        coming: (job id, its kind) of each job that would enter a task queue.
    """
    limits = _limits({kind for _, kind in coming})
    for limit in limits:
        _lock(limit)
    rooms = {limit: _room(limit) for limit in limits}
    let_in = set()
    for job_id, kind in coming:
        concerned = [limit for limit, scope in limits.items() if scope.is_on(kind)]
        if all(rooms[limit] > 0 for limit in concerned):
            let_in.add(job_id)
            rooms |= {limit: rooms[limit] - 1 for limit in concerned}
    return frozenset(let_in)


def room_of(kinds: Collection[QuotaKind]) -> Mapping[QuotaKind, int | None]:
    """Return for each kind how many more of its jobs may wait now; None: any number."""
    rooms = [(scope, _room(limit)) for limit, scope in _limits(kinds).items()]
    return {kind: min((room for scope, room in rooms if scope.is_on(kind)), default=None) for kind in kinds}


def full_in_words(kind: QuotaKind) -> str:
    """Return the quota that is full for a job of the kind, such as "at most 3 jobs of … may wait"; empty: none."""
    full = next((limit for limit in _limits([kind]) if _room(limit) <= 0), None)
    return "" if full is None else f"at most {full.waiting} jobs of {limit_in_words(full)} may wait"


def _limits(kinds: Collection[QuotaKind]) -> Mapping[Limit, LimitScope]:
    """Return the quotas that apply to jobs of any of the kinds, in the order in which they are locked."""
    limit_ids = sql.quotas_of(
        vo_ids={kind.vo_id for kind in kinds},
        group_ids={kind.group_id for kind in kinds},
        owner_ids={kind.owner_id for kind in kinds},
        job_types={kind.job_type for kind in kinds},
    )
    if not limit_ids:
        return {}
    limits = Limit.objects.filter(pk__in=limit_ids).select_related("vo", "group", "user").order_by("pk")
    scopes = {limit: scope_of(limit) for limit in limits}
    return {limit: scope for limit, scope in scopes.items() if any(map(scope.is_on, kinds))}


@transaction_required
def _lock(limit: Limit) -> None:
    # Not its row: claims under the same limit need not wait for a long submission.
    lock(LockKey.COUNT_WAITING_JOBS, of=limit.pk)


def _room(limit: Limit) -> int:
    """Return how many more jobs may wait; below 0 if rescheduled jobs exceed the quota."""
    return (limit.waiting or 0) - waiting_in(limit)
