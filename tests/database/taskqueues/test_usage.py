"""Recorded usage of groups, and shares corrected by it (docs/architecture.md, Priorities, ADR 13)."""

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError

from taskqueues.domain.history import HALF_LIFE
from taskqueues.domain.usage import INTERVAL, KEPT, Amounts, UsageAmount, interval_of
from taskqueues.models import ChangedGroup, GroupUsage, TaskQueue, UsageCounter, UsageInterval
from taskqueues.queries import delivered
from taskqueues.services import priorities, usage
from tests.factories import NOW, make_group, make_job, make_queued_job, make_task_queue, make_vo
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db


def record(amounts: Amounts, *, since: datetime = NOW, seconds: float = 60.0) -> None:
    usage.begin_count(at=since)
    usage.record(amounts, since=since, until=since + timedelta(seconds=seconds))


def used_s() -> dict[int, float]:
    return dict(GroupUsage.objects.values_list("group_id", "used_s"))


def test_amounts_of_an_interval_are_added_with_the_end_of_the_count() -> None:
    group = make_group()
    assert usage.lock_count() is None
    record({(group.pk, 500): UsageAmount(2, 10.0), (group.pk, 5000): UsageAmount(1, 5.0)})
    record({(group.pk, 500): UsageAmount(1, 2.5)}, since=NOW + timedelta(seconds=60))
    assert delivered(vo_id=group.vo_id, since=NOW) == {
        (group.pk, 500): UsageAmount(3, 12.5),
        (group.pk, 5000): UsageAmount(1, 5.0),
    }
    assert usage.lock_count() == NOW + timedelta(seconds=120)


def test_delivered_usage_is_read_by_vo_and_start_time() -> None:
    mine, theirs = make_group(), make_group()
    record({(mine.pk, 500): UsageAmount(1, 1.0), (theirs.pk, 500): UsageAmount(5, 5.0)})
    record({(mine.pk, 500): UsageAmount(2, 2.0)}, since=NOW + INTERVAL)
    assert delivered(vo_id=mine.vo_id, since=NOW) == {(mine.pk, 500): UsageAmount(3, 3.0)}
    assert delivered(vo_id=mine.vo_id, since=NOW + INTERVAL) == {(mine.pk, 500): UsageAmount(2, 2.0)}


def test_usage_older_than_a_week_and_a_day_is_removed() -> None:
    group = make_group()
    record({(group.pk, 500): UsageAmount(1, 1.0)}, since=NOW - KEPT - INTERVAL)
    record({(group.pk, 500): UsageAmount(2, 2.0)})
    assert UsageInterval.objects.get().matches == 2


def test_an_interval_begins_every_five_minutes() -> None:
    assert interval_of(NOW) == NOW
    assert interval_of(NOW + timedelta(seconds=299.9)) == NOW
    assert interval_of(NOW + timedelta(seconds=300)) == NOW + INTERVAL


def test_usage_decays_by_half_in_three_days_for_all_groups() -> None:
    one, other = make_group(), make_group()
    record({(one.pk, 500): UsageAmount(1, 80.0), (other.pk, 500): UsageAmount(1, 8.0)})
    record({(one.pk, 5000): UsageAmount(1, 1.0)}, since=NOW, seconds=HALF_LIFE.total_seconds())
    assert used_s() == {one.pk: 41.0, other.pk: 4.0}


def test_negligible_usage_is_zero() -> None:
    group = make_group()
    record({(group.pk, 500): UsageAmount(1, 1.0)})
    record({}, seconds=timedelta(days=365).total_seconds())
    assert used_s() == {group.pk: 0.0}


def queue_of(group: Group) -> TaskQueue:
    task_queue = make_task_queue(group=group, priority=0.0)
    make_queued_job(task_queue=task_queue)
    return task_queue


def priorities_of(*queues: TaskQueue) -> list[float]:
    return [TaskQueue.objects.get(pk=queue.pk).priority for queue in queues]


def test_only_vos_with_history_fair_share_correct_their_shares() -> None:
    corrected, plain = make_vo(history_fair_share=True), make_vo()
    groups = [make_group(vo=vo, priority=50.0) for vo in (corrected, corrected, plain, plain)]
    queues = [queue_of(group) for group in groups]
    priorities.recalculate()
    assert priorities_of(*queues) == [50.0, 50.0, 50.0, 50.0]
    record(
        {(group.pk, 500): UsageAmount(1, used) for group, used in zip(groups, (80.0, 20.0, 80.0, 20.0), strict=True)}
    )
    assert {mark.group for mark in ChangedGroup.objects.all()} == set(groups[:2])
    priorities.recalculate(only_changed=True)
    assert priorities_of(*queues) == pytest.approx([20.0, 80.0, 50.0, 50.0])


def test_a_new_queue_gets_its_part_of_the_corrected_share() -> None:
    vo = make_vo(history_fair_share=True)
    one, other = make_group(vo=vo, priority=50.0), make_group(vo=vo, priority=50.0)
    record({(one.pk, 500): UsageAmount(1, 80.0), (other.pk, 500): UsageAmount(1, 20.0)})
    for group in (one, other):
        make_job(group=group)
    assert [TaskQueue.objects.get(group=group).priority for group in (one, other)] == pytest.approx([20.0, 80.0])


def test_delivery_count_has_one_row() -> None:
    with pytest.raises(IntegrityError, match="delivery_count_has_one_row"):
        UsageCounter.objects.create(pk=2, counted_until=NOW)


def test_a_group_has_one_delivery_of_a_segment_in_an_interval() -> None:
    one = {"group": make_group(), "cpu_segment_s": 500, "began_at": NOW, "matches": 1, "processor_s": 1.0}
    UsageInterval.objects.create(**one)
    with pytest.raises(IntegrityError, match="a_group_has_one_delivery_of_a_segment_in_an_interval"):
        UsageInterval.objects.create(**one)
