"""Priorities of task queues, from the shares of groups and the weights of waiting jobs (PRI, PIL §2.2)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from taskqueues import sql
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.shares import GroupShare, QueueLoad, split_share
from taskqueues.models import ChangedGroup
from taskqueues.queries import parts_in_effect, shares_in_effect
from taskqueues.services.consequences import of_priority
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, Group, User
from wms.accounts.queries import active_memberships
from wms.accounts.security_log import record
from wms.kernel.consequences import require_confirmed
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.names import change_in_words, in_percent


@transaction_required
def mark_changed(*, group_id: int, now: datetime) -> None:
    """Mark the group's priorities for recalculation, which follows within a second.

    If shares are corrected by history, those of all groups of the VO depend on one another.
    """
    mark_corrected_with(group_ids=[group_id], now=now)
    mark_groups(Group.objects.filter(pk=group_id, vo__history_fair_share=False).values_list("pk", flat=True), now=now)


@transaction_required
def mark_corrected_with(*, group_ids: Collection[int], now: datetime) -> None:
    """Mark every group whose share is corrected by history together with one of these."""
    vos = VO.objects.filter(groups__in=list(group_ids), history_fair_share=True)
    mark_groups(Group.objects.filter(vo__in=vos).values_list("pk", flat=True), now=now)


@transaction_required
def mark_groups_of(*, vo_id: int, now: datetime) -> None:
    """Mark every group of the VO."""
    mark_groups(Group.objects.filter(vo=vo_id).values_list("pk", flat=True), now=now)


@transaction_required
def mark_groups(group_ids: Iterable[int], *, now: datetime) -> None:
    """Mark these groups and no others."""
    sql.mark_groups(group_ids, now=now)


@transaction_required
def set_priority(
    group: Group, *, priority: float, reason: str, confirmed: Collection[str], by: User, now: datetime
) -> None:
    """Give a group another priority, which takes effect within a second; *group* is updated too.

    Args:
        group: with its VO loaded.
        priority: 0 to MOST_PRIORITY; the present one changes nothing.
        reason: for the history; not empty.
        confirmed: sentences of consequences that are meant.
        by: the acting user.
        now: the time of the change.

    Raises:
        ConfirmationNeededError: no job of the group would start, and that is not confirmed.
    """
    before = Group.objects.select_for_update(no_key=True).values_list("priority", flat=True).get(pk=group.pk)
    group.priority = priority
    if priority == before:
        return
    sentences = require_confirmed(of_priority(group), confirmed)
    group.save(update_fields=["priority"])
    changes: dict[str, object] = {"priority": change_in_words(before, priority), "reason": reason}
    if sentences:
        changes["confirmed"] = [f"+{sentence}" for sentence in sentences]
    changes["share"] = share_in_words(group, before=before)
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=f"group {group}", row=group, what="changed", changes=changes)
    mark_changed(group_id=group.pk, now=now)


def share_in_words(group: Group, *, before: float) -> str:
    """Return the part of its VO that a group had with the priority *before*, and has now: "17 % → 55 %".

    Args:
        group: with its VO loaded.
        before: its priority before.
    """
    return " → ".join(
        in_percent(parts_in_effect(group.vo, instead={group.pk: priority})[group.pk])
        for priority in (before, group.priority)
    )


def recalculate(*, only_changed: bool = False) -> int:
    """Recalculate all task queues, or those of the changed groups only; return how many got another priority.

    The stored weights of a task queue's jobs are renewed too. Repeating it is harmless. Concurrent runs follow one
    another.
    """
    with transaction.atomic(durable=True):
        lock(LockKey.RECALCULATE_PRIORITIES)
        # Marks written from here on belong to the next run, so the marks are read before the data.
        marks = dict(ChangedGroup.objects.values_list("pk", "group_id"))
        if only_changed and not marks:
            return 0
        groups = Group.objects.filter(pk__in=set(marks.values())) if only_changed else Group.objects.all()
        changed = sql.divide_shares(_shares(groups), of_all_groups=not only_changed)
        ChangedGroup.objects.filter(pk__in=marks).delete()
        return changed


@transaction_required
def of_new_queues(weights: Mapping[QueueDefinition, float]) -> dict[QueueDefinition, float]:
    """Return the priorities of new task queues with these definitions and summed weights.

    They are computed from the groups' stored sums, with the new task queues included: jobs are not counted here,
    because a group may have a million. The group's other task queues follow within a second. A task queue whose owner
    is suspended, or is not a member of its group, gets 0.
    """
    members = active_memberships(
        user_ids={definition.owner_id for definition in weights},
        group_ids={definition.group_id for definition in weights},
    )
    untrusted = {definition for definition in weights if (definition.owner_id, definition.group_id) not in members}
    shares = _shares(Group.objects.filter(pk__in={definition.group_id for definition in weights}))
    loads = _stored_loads(share.group_id for share in shares)
    # NB: positive, so that they differ from the stored ones.
    definition_of = dict(enumerate((definition for definition in weights if definition not in untrusted), start=1))
    for number, definition in definition_of.items():
        loads[definition.group_id].append(
            QueueLoad(task_queue_id=number, owner_id=definition.owner_id, weight=weights[definition])
        )
    return dict.fromkeys(untrusted, 0.0) | {
        definition_of[number]: priority
        for share in shares
        for number, priority in split_share(share.share, loads[share.group_id], shared=share.shares_jobs).items()
        if number > 0
    }


def _shares(groups: QuerySet[Group]) -> list[GroupShare]:
    groups = groups.select_related("vo").order_by("pk")
    shares = shares_in_effect(groups)
    return [GroupShare(group_id=group.pk, share=shares[group.pk], shares_jobs=group.shares_jobs) for group in groups]


def _stored_loads(group_ids: Iterable[int]) -> defaultdict[int, list[QueueLoad]]:
    """Return the stored total weight of each owner's task queues, by group, as one load each.

    The priority of a new task queue needs no more. A group may have ten thousand task queues, but fewer owners.
    """
    loads: defaultdict[int, list[QueueLoad]] = defaultdict(list)
    for number, (group_id, owner_id, weight) in enumerate(sql.stored_weights(group_ids)):
        loads[group_id].append(QueueLoad(task_queue_id=-number, owner_id=owner_id, weight=weight))
    return loads
