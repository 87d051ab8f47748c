"""The upgrade of a database from before wall-clock time, GPUs, disk and containers were requirements."""

from datetime import UTC, datetime

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from resources.models import Queue
from taskqueues.domain.definition import JobRequirements, QueueDefinition, define
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services import queueing
from taskqueues.services.offers import offer_of_queue
from taskqueues.services.queueing import WaitingJob
from tests.factories import make_group, make_queue, make_user

MIGRATIONS = [
    ("resources", "0003_wall_time_gpus_disk_container"),
    ("taskqueues", "0006_wall_time_gpus_disk_container"),
]


def migrate(*, forward: bool) -> None:
    """Migrate forwards or backwards to exactly these migrations."""
    loader = MigrationExecutor(connection).loader
    for key in MIGRATIONS if forward else reversed(MIGRATIONS):
        before = loader.project_state(key, at_end=False)
        with connection.schema_editor() as editor:
            migration = loader.get_migration(*key)
            (migration.apply if forward else migration.unapply)(before, editor)


def columns(table: str) -> set[str]:
    with connection.cursor() as cursor:
        return {column.name for column in connection.introspection.get_table_description(cursor, table)}


@pytest.mark.django_db(transaction=True)
def test_queues_that_exist_keep_their_jobs_and_take_more_of_the_same() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    batch_queue = make_queue()
    definition = define(
        JobRequirements(
            owner_id=alice.pk,
            group_id=group.pk,
            vo_id=group.vo_id,
            setup=group.vo.setup,
            cpu_time_s=500,
            job_type="User",
            tags=("gpu",),
        ),
        rounding=queueing.rounding(),
    )
    with transaction.atomic():
        before = queueing.enqueue([job(1, definition)], now=datetime.now(UTC))
    migrate(forward=False)
    try:
        assert not columns("taskqueues_taskqueue") & {"wall_time_s", "gpus", "disk_mb", "container"}
    finally:
        migrate(forward=True)
    with transaction.atomic():
        after = queueing.enqueue([job(2, definition)], now=datetime.now(UTC))
    assert set(after.values()) == set(before.values())
    row = TaskQueue.objects.get()
    assert (row.wall_time_s, row.gpus, row.disk_mb, row.container) == (0, 0, 0, False)
    assert QueuedJob.objects.count() == 2
    offer = offer_of_queue(
        Queue.objects.select_related("ce__site").get(pk=batch_queue.pk), vo=group.vo, now=datetime.now(UTC)
    )
    assert (offer.wall_time_s, offer.gpus, offer.disk_mb, offer.container) == (None, 0, 0, False)


def job(job_id: int, definition: QueueDefinition) -> WaitingJob:
    return WaitingJob(job_id=job_id, definition=definition, user_priority=1)
