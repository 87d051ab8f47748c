"""Waiting jobs that fit no queue any more once a queue offers less, or a platform runs fewer others (ADR 105)."""

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np
from django.db import transaction

from resources.models import Platform, Queue
from resources.queries.places import queues_at_hand
from resources.services.states import full_name
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.queries import jobs_in
from taskqueues.services.consequences import jobs_in_words
from taskqueues.services.index.reading import definitions_of
from taskqueues.services.offers import offer_of_queue, offer_to, read_for
from wms.accounts.models import VO
from wms.kernel.consequences import Consequence
from wms.kernel.memo import Memo
from wms.wire.amounts import AMOUNT

#: Columns of a queue with which jobs are compared; of their types there is a consequence of its own.
COMPARED: Final = frozenset({"cpu_time_s", "platforms", "tags", "required_tags", *AMOUNT})
#: Task queues of one change that are compared with all queues.
MOST_COMPARED: Final = 200


class WaitingTaskQueues:
    """The task queues with jobs, read once for any number of changes, and only if there are any.

    Args:
        now: time for which offers are evaluated.
    """

    def __init__(self, *, now: datetime) -> None:
        self._now = now

    @cached_property
    def _definitions(self) -> Mapping[int, QueueDefinition]:
        return definitions_of(list(TaskQueue.objects.with_jobs().values_list("pk", flat=True)))

    def fitting(self, queue: Queue) -> frozenset[int]:
        """Return the task queues that fit a queue with the values of *queue*; states and downtimes do not matter."""
        found: set[int] = set()
        rows = [
            QueueRow(task_queue_id=pk, definition=each, trusted=True) for pk, each in sorted(self._definitions.items())
        ]
        columns = Columns.of(rows)
        for vo in queue.ce.site.vos.all() or VO.objects.all():
            offer = _open(offer_of_queue(queue, vo=vo, now=self._now))
            # The kind of its pilots follows the task queue.
            masks = [each.accepts(columns, offer) for name, each in CONDITIONS.items() if name != "pilot_type"]
            accepted = np.logical_and.reduce([mask for mask in masks if mask is not None])
            found.update(columns.task_queue_id[accepted].tolist())
        return frozenset(found)

    def runnable(self, task_queues: Collection[int], *, but: Queue | None = None) -> frozenset[int]:
        """Return those of the task queues that fit some stored queue, except *but*."""
        memo: Memo = {}
        vos = VO.objects.in_bulk({self._definitions[pk].vo_id for pk in task_queues})
        return frozenset(
            pk
            for pk in task_queues
            if self._is_runnable(self._definitions[pk], vo=vos[self._definitions[pk].vo_id], but=but, memo=memo)
        )

    def _is_runnable(self, definition: QueueDefinition, *, vo: VO, but: Queue | None, memo: Memo) -> bool:
        lookups = read_for(definition.submit_pools, vo=vo, memo=memo)
        judge = Judge(Columns.of([QueueRow(task_queue_id=0, definition=definition, trusted=True)]))
        return any(
            not judge.failed(_open(offer_to(definition, queue, vo=vo, now=self._now, lookups=lookups)))
            for queue in lookups.get(queues_at_hand, vo)
            if but is None or queue.pk != but.pk
        )

    def of_queue(self, queue: Queue, *, before: Collection[int]) -> Iterator[Consequence]:
        """Yield what it stops that a queue has other values.

        Args:
            queue: with the new values, stored or not.
            before: what fitted it with the old ones.
        """
        lost = sorted({*before} - self.fitting(queue))
        compared = lost[:MOST_COMPARED]
        stranded = {*compared} - self.runnable(compared, but=queue)
        yield from _of(f"The {full_name(queue)}", stranded, are_all=len(compared) == len(lost))

    def naming(self, platforms: Collection[str]) -> frozenset[int]:
        """Return the first task queues that name some of these platforms and fit some stored queue."""
        if not platforms:
            return frozenset()
        naming = sorted(pk for pk, each in self._definitions.items() if {*each.platforms} & {*platforms})
        return self.runnable(naming[:MOST_COMPARED])

    def of_platform(self, platform: Platform, *, before: Collection[int]) -> Iterator[Consequence]:
        """Yield what it stops that a platform, which is stored, runs fewer others.

        Args:
            platform: with the new values.
            before: as of ``naming``, with the old ones.
        """
        stranded = {*before} - self.runnable(before)
        yield from _of(f"The platform {platform}", stranded, are_all=len(before) < MOST_COMPARED)


def of_queue(queue: Queue, *, now: datetime) -> Iterator[Consequence]:
    """Yield what a queue with values that are not stored yet stops."""
    waiting = WaitingTaskQueues(now=now)
    stored = Queue.objects.select_related("ce__site").get(pk=queue.pk)
    yield from waiting.of_queue(queue, before=waiting.fitting(stored))


def of_platform(platform: Platform, *, now: datetime) -> list[Consequence]:
    """Return what a platform with values that are not stored yet stops; it is written, and that is undone."""
    waiting = WaitingTaskQueues(now=now)
    gone = {*Platform.objects.get(pk=platform.pk).runs} - {*platform.runs}
    before = waiting.naming(gone)
    with transaction.atomic():
        tried = copy(platform)
        tried.save()
        found = list(waiting.of_platform(tried, before=before))
        transaction.set_rollback(True)
    return found


def _open(offer: ResourceOffer) -> ResourceOffer:
    return replace(offer, accepting=True, downtime=None)


def _of(what: str, stranded: Collection[int], *, are_all: bool) -> Iterator[Consequence]:
    if number := sum(jobs_in(list(stranded)).values()):
        least = "" if are_all else "At least "
        yield Consequence(
            sentence=f"{what} no longer fits jobs that fit nowhere else.",
            extent=f"{least}{jobs_in_words(number, 'wait')} that can run nowhere else.",
            is_felt=True,
        )
