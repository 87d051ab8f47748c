"""Avoided places: a job that was given back goes to other places first while one of them may take it (ADR 33)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from resources.queries.places import queues_at_hand
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.held_back import HeldBack, delay_s
from taskqueues.domain.queue_check import Judge
from taskqueues.services.offers import offer_to, read_for
from wms.accounts.models import VO
from wms.kernel.memo import Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBack:
    """The return of a job from a pilot without a result.

    Args:
        queue_ids: queues that gave it back so far, each once, the latest last; empty: unknown.
        host: the host of the latest; empty: unknown.
        other_hosts: whether living pilots are on other hosts of the latest queue.
        delayed: whether it waits before its next match; a lease that ended in silence was a sufficient delay.
        memo: cache of the index for lookups of the configuration.
    """

    queue_ids: Sequence[int] = ()
    host: str = ""
    other_hosts: bool = False
    delayed: bool = True
    memo: Memo


def held_back(
    definition: QueueDefinition | None, given_back: GivenBack, *, vo: VO, reschedules: int, now: datetime
) -> HeldBack | None:
    """Return the conditions for the next match of a job that was given back; None: at once and everywhere.

    Args:
        definition: of its task queue; None: it goes into none yet.
        given_back: the places that gave it back.
        vo: of the job.
        reschedules: previous reschedules of the job.
        now: by the database's clock.
    """
    seconds = delay_s(
        reschedules=reschedules,
        first_s=settings.WMS_RESCHEDULE_DELAY_S,
        longest_s=settings.WMS_RESCHEDULE_DELAY_MAX_S,
    )
    not_before = now + timedelta(seconds=seconds if given_back.delayed else 0)
    avoided, host = _avoided(definition, given_back, vo=vo, now=now)
    if not avoided:
        return HeldBack(not_before=not_before) if not_before > now else None
    return HeldBack(
        not_before=not_before,
        avoided_until=not_before + timedelta(seconds=settings.WMS_RESCHEDULE_ELSEWHERE_S),
        avoided_queue_ids=avoided,
        avoided_host=host,
    )


def avoided_queues(
    definition: QueueDefinition, tried: Sequence[int], *, vo: VO, now: datetime, memo: Memo
) -> tuple[int, ...]:
    """Return the queues, of those that gave a job back, that it avoids entirely in the present configuration.

    Args:
        definition: of its task queue.
        tried: the queues that gave it back, the latest last; at least one.
        vo: of the job.
        now: by the database's clock.
        memo: cache of the index for lookups of the configuration.
    """
    last = tried[-1]
    some_tried = False
    for pk in _fitting(definition, vo=vo, memo=memo, now=now):
        if pk not in tried:
            return tuple(tried)
        some_tried = some_tried or pk != last
    return (last,) if some_tried else ()


def _avoided(
    definition: QueueDefinition | None, given_back: GivenBack, *, vo: VO, now: datetime
) -> tuple[tuple[int, ...], str | None]:
    """Return the queues that the job avoids, and the only host of them that it avoids (None: all)."""
    if definition is None or not given_back.queue_ids or not settings.WMS_RESCHEDULE_ELSEWHERE_S:
        return (), None
    tried, last = given_back.queue_ids, given_back.queue_ids[-1]
    if avoided := avoided_queues(definition, tried, vo=vo, now=now, memo=given_back.memo):
        return avoided, None
    return ((last,), given_back.host) if given_back.host and given_back.other_hosts else ((), None)


def _fitting(definition: QueueDefinition, *, vo: VO, memo: Memo, now: datetime) -> Iterator[int]:
    """Yield the open queues whose pilots may get the jobs, evaluated as by explain.

    Throttles and limits are left out: they open by themselves, and a place is not avoided for long.
    """
    lookups = read_for(definition.submit_pools, vo=vo, memo=memo)
    judge = Judge(Columns.of([QueueRow(task_queue_id=0, definition=definition, trusted=True)]))
    for queue in lookups.get(queues_at_hand, vo):
        if not judge.failed(offer_to(definition, queue, vo=vo, now=now, lookups=lookups)):
            yield queue.pk
