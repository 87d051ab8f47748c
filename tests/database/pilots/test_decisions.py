"""What a cycle decided about each queue is stored with the cycle, for the pages of places."""

from datetime import timedelta

import pytest

from pilots.models import DirectorDecision
from tests.database.pilots.conftest import Fleet
from tests.factories import NOW, make_group, make_queue, make_task_queue

pytestmark = pytest.mark.django_db


def test_a_cycle_stores_one_row_for_a_ce_and_changes_it_only_with_its_decision(fleet: Fleet) -> None:
    group = make_group()
    queue = make_queue(max_waiting_pilots=2)
    other = make_queue(ce=queue.ce, gpus=0, required_tags=["gpu"], tags=["gpu"])
    assert fleet.cycle() == 0
    row = DirectorDecision.objects.get()
    assert (row.ce, row.decided_at) == (queue.ce, NOW)
    assert row.queues == {str(pk): [0, 0, "no_jobs"] for pk in (queue.pk, other.pk)}
    fleet.cycle(after=timedelta(minutes=1))
    row.refresh_from_db()
    assert row.decided_at == NOW
    make_task_queue(group=group, job_ids=[1, 2, 3])
    assert fleet.cycle(after=timedelta(minutes=2)) == 2
    row.refresh_from_db()
    assert (row.decided_at, row.queues[str(queue.pk)]) == (NOW + timedelta(minutes=2), [3, 2, None])
    assert row.queues[str(other.pk)] == [0, 0, "no_jobs"]
    fleet.cycle(after=timedelta(minutes=3))
    row.refresh_from_db()
    assert row.queues[str(queue.pk)] == [1, 0, "full"]
