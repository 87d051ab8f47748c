"""Task-queue priorities, from the groups' shares and the weights of what waits (PRI, PIL §2.2)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isclose

from django.db import transaction
from django.db.models import Count

from taskqueues import sql
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.shares import QueueLoad, split_share
from taskqueues.domain.weights import total_weight
from taskqueues.models import ChangedGroup, TaskQueue
from wms.accounts.models import Group
from wms.kernel.db import DatabaseNow, LockKey, lock, transaction_required


@transaction_required
def mark_changed(*, group_id: int, now: datetime) -> None:
    """Note that the group's priorities are to be computed again; beat does so within a second."""
    ChangedGroup.objects.create(group_id=group_id, changed_at=now)


def recalculate(*, only_changed: bool = False) -> int:
    """Compute the priorities of all task queues, or of the changed groups' only; return how many queues changed.

    Repeating it changes nothing. Two at once follow one another.
    """
    with transaction.atomic(durable=True):
        lock(LockKey.RECALCULATE_PRIORITIES)
        # What is marked from here on is of the next run, so the marks are read before what they are about.
        marks = dict(ChangedGroup.objects.values_list("pk", "group_id"))
        groups = Group.objects.filter(pk__in=set(marks.values())) if only_changed else Group.objects.all()
        loads, unsettled = _loads(groups.values_list("pk", flat=True))
        changed = sum(_assign(group, loads[group.pk]) for group in groups.order_by("pk"))
        ChangedGroup.objects.filter(pk__in=marks).delete()
        # A queue that was empty has no part now. It will be removed, which marks its group; but when a job comes into
        # it before, nobody else does.
        ChangedGroup.objects.bulk_create(
            ChangedGroup(group_id=group_id, changed_at=DatabaseNow()) for group_id in sorted(unsettled)
        )
        return changed


@transaction_required
def of_new_queues(weights: Mapping[QueueDefinition, float]) -> dict[QueueDefinition, float]:
    """Return the priorities with which queues of these definitions and summed weights are created.

    They come out of the groups' sums with the new queues counted in; the queues beside them follow within a second.
    """
    groups = Group.objects.in_bulk({definition.group_id for definition in weights})
    loads, _ = _loads(groups)
    # NB: negative, so that they cannot be mistaken for queues that exist.
    definition_of = {-number: definition for number, definition in enumerate(weights, start=1)}
    for number, definition in definition_of.items():
        loads[definition.group_id].append(
            QueueLoad(task_queue_id=number, owner_id=definition.owner_id, weight=weights[definition])
        )
    return {
        definition_of[queue_id]: priority
        for group_id, group in groups.items()
        for queue_id, priority in split_share(group.priority, loads[group_id], shared=group.shares_jobs).items()
        if queue_id < 0
    }


def _loads(group_ids: Iterable[int]) -> tuple[defaultdict[int, list[QueueLoad]], frozenset[int]]:
    """Return what each queue of the groups weighs, by group; and the groups of which a queue is empty.

    In one statement, for both must be seen at the same moment.
    """
    levels: defaultdict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    unsettled: set[int] = set()
    rows = (
        TaskQueue.objects.filter(group__in=list(group_ids))
        .values_list("group_id", "owner_id", "pk", "queued_jobs__user_priority")
        .annotate(jobs=Count("queued_jobs"))
        .order_by()
    )
    for group_id, owner_id, queue_id, user_priority, jobs in rows:
        if jobs:
            levels[group_id, owner_id, queue_id][user_priority] += jobs
        else:
            unsettled.add(group_id)
    loads: defaultdict[int, list[QueueLoad]] = defaultdict(list)
    for (group_id, owner_id, queue_id), jobs_of_priority in levels.items():
        weight = total_weight(jobs_of_priority)
        loads[group_id].append(QueueLoad(task_queue_id=queue_id, owner_id=owner_id, weight=weight))
    return loads, frozenset(unsettled)


def _assign(group: Group, loads: list[QueueLoad]) -> int:
    new_priority = split_share(group.priority, loads, shared=group.shares_jobs)
    queues = TaskQueue.objects.filter(pk__in=new_priority).values_list("pk", "priority")
    # Only what changed is written, or each run would make a new version of every row.
    changed = {pk: new_priority[pk] for pk, old in queues if not isclose(old, new_priority[pk], rel_tol=1e-9)}
    if changed:
        sql.set_priorities(changed)
    return len(changed)
