"""The migration that moves waiting jobs with software into task queues that name it (ADR 34)."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from taskqueues.models import ChangedGroup, QueuedJob, TaskQueue
from taskqueues.services import priorities
from taskqueues.services.index.shared import index
from tests.factories import make_group, make_job, make_user
from tests.migrations import before_narrow_jobs
from wms.jobs.models import Job

migration = import_module("wms.jobs.migrations.0009_software_of_jobs_that_wait")


def software_by_job() -> dict[int, list[str]]:
    return dict(QueuedJob.objects.values_list("pk", "task_queue__software"))


@pytest.mark.django_db
def test_waiting_jobs_move_to_task_queues_that_name_their_software() -> None:
    group = make_group()
    alice = make_user(groups=[group])

    def job(*software: str) -> Job:
        return make_job(group=group, owner=alice, tags=["gpu"], software=software)

    plain, both, swapped, other = job(), job("root6", "/opt/tool"), job("/opt/tool", "root6"), job("root6")
    named, unnamed = (QueuedJob.objects.get(pk=each.pk).task_queue for each in (both, plain))
    # As it was before: one task queue for all of them, and none that names software but for one.
    QueuedJob.objects.update(task_queue=unnamed)
    TaskQueue.objects.exclude(pk__in=[unnamed.pk, named.pk]).delete()
    ChangedGroup.objects.all().delete()
    with before_narrow_jobs(), connection.schema_editor() as editor:
        for _ in ("moved", "nothing left to move"):
            migration.move_jobs(apps, editor)
    assert software_by_job() == {
        plain.pk: [],
        both.pk: ["/opt/tool", "root6"],
        swapped.pk: ["/opt/tool", "root6"],
        other.pk: ["root6"],
    }
    assert QueuedJob.objects.get(pk=both.pk).task_queue == named
    new = TaskQueue.objects.get(software=["root6"])
    assert (new.owner, new.group, new.tags) == (alice, group, ["gpu"])
    assert ChangedGroup.objects.filter(group=group).exists()
    # The same task queue is found by later submissions, and every index knows how many jobs wait where.
    assert QueuedJob.objects.get(pk=job("root6").pk).task_queue == new
    priorities.recalculate()
    snapshot = index.renewed()
    waiting = {row.pk: int(snapshot.jobs[snapshot.row_of.get(row.pk)].sum()) for row in TaskQueue.objects.all()}
    assert waiting == {unnamed.pk: 1, named.pk: 2, new.pk: 2}
