"""Periodic tasks of a real worker do not delay each other (ADR 95)."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection, transaction

from tests.pace import wait_for, within
from wms.celery import app
from wms.kernel import liveness
from wms.schedule import BEAT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

REPORT = "kernel.report_liveness"
#: What a worker reads for every task, and what the report writes.
FREE = {"django_migrations", "kernel_liveness"}


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    """Run the worker of `control` on this test's database; its concurrency is that of the product."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "PYTHONPATH": str(settings.BASE_DIR),
        "WMS_SECRET_KEY": settings.SECRET_KEY,
        "WMS_DATABASE_URL": os.environ["WMS_DATABASE_URL"].replace("/wms?", f"/{connection.settings_dict['NAME']}?"),
    }
    program = "import sys; from wms.celery import app; sys.exit(app.start(sys.argv[1:]))"
    options = ["--queues", "control", "--pool", "threads", "--prefetch-multiplier", "1", "--without-gossip"]
    command = [sys.executable, "-P", "-c", program, "--quiet", "worker", "--loglevel", "WARNING", *options]
    app.control.purge()
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=within(60))
            app.control.purge()


def waiting() -> int:
    """Return the number of connections to this test's database that wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def send(name: str) -> None:
    """Send a task as beat does, except that it does not expire."""
    app.send_task(name, queue="control")


@pytest.mark.usefixtures("worker")
def test_all_other_tasks_hang_and_one_runs() -> None:
    """Each task that loops is stopped in its first statement, and its further runs are ignored."""
    hanging = {entry["task"] for entry in BEAT.values()} - {REPORT, "kernel.report_sites"}
    with transaction.atomic():
        with connection.cursor() as cursor:
            tables = [name for name in connection.introspection.table_names(cursor) if name not in FREE]
            cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        for _ in range(3):
            for name in sorted(hanging):
                send(name)
        send(REPORT)
        wait_for(
            lambda: liveness.is_alive(liveness.BEAT), state=lambda: f"{waiting()} tasks wait, and one does not run"
        )
        # Mail is off: its task has nothing to do.
        number = len(hanging - {"jobs.send_notices"})
        wait_for(lambda: waiting() == number, state=lambda: f"{waiting()} of {number} tasks wait")
