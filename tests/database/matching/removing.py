"""Ended jobs with rows in all tables, their removal, and what may not be left of them, for tests of the removal."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection

from matching.queries.invariants import violations
from matching.services import removal_permits, retention
from pilots.models import Pilot
from taskqueues.models import UsageCounter
from tests import factories
from tests.factories import NOW, make_job, make_match, make_samples, make_user
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import (
    Accounting,
    InputSandbox,
    Job,
    JobCommand,
    JobHistory,
    RemovalSweep,
    Sandbox,
    Submission,
)
from wms.jobs.queries import changes
from wms.jobs.services import counting

OLD = NOW - timedelta(days=200)
LATER = NOW + timedelta(days=2)


@pytest.fixture(autouse=True)
def accounting() -> None:
    """Let all usage and all histories until now be counted."""
    UsageCounter.objects.create(counted_until=NOW)
    Accounting.objects.create(seen=changes.now().seen, began_at=OLD)


def ended(status: JobStatus = JobStatus.DONE, *, at: datetime = OLD, **wanted: object) -> Job:
    """Return an ended job with rows in each table that has some about jobs; all is old enough, and counted."""
    job = make_job(status=status, submitted_at=at, std_output_tail="last line", **wanted)  # type: ignore[arg-type]
    Submission.objects.filter(pk=job.submission_id).update(submitted_at=at)
    for line in (JobStatus.RECEIVED, status):
        JobHistory.objects.create(job=job, changed_at=at, status=line, source="x", transaction_number=1)
    pilot = factories.make_pilot(vo=job.vo)
    Pilot.objects.filter(pk=pilot.pk).update(matched_at=at)
    make_match(job=job, pilot=pilot, leased_at=at, ended_at=at)
    make_samples(job, (30, 1.0, 2.0, 3.0))
    JobCommand.objects.create(job=job, name="peek", created_at=at, acknowledged_at=at)
    InputSandbox.objects.create(job=job, sandbox=sandbox(), file_name="in")
    return job


def sandbox() -> Sandbox:
    return Sandbox.objects.create(
        digest=uuid4().hex * 2, size_bytes=1, is_archive=False, created_at=OLD, check_use_at=OLD
    )


def permit(*vos: VO) -> None:
    operator = make_user(operator=True)
    for vo in vos or VO.objects.all():
        removal_permits.look(vo, now=NOW)
        removal_permits.permit(vo, by=operator, now=NOW)


def remove(now: datetime = NOW) -> int:
    counting.add_changes()
    RemovalSweep.objects.update(rests_until=None)
    return retention.remove_ended(now=now)


def referring() -> Mapping[str, int]:
    """Return {column: number of rows whose job, submission or description does not exist}, without zeros."""
    targets = {
        "job_id": "jobs_job",
        "submission_id": "jobs_submission",
        "stored_description_id": "jobs_storeddescription",
    }
    found = {}
    with connection.cursor() as cursor:
        for column, target in targets.items():
            cursor.execute(
                "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
                " WHERE column_name = %s AND table_type = 'BASE TABLE' AND table_name <> ALL(%s)",
                # A position in a list of jobs; changes that are not added yet; the position of the sweep.
                [column, ["resources_replicachange", "jobs_jobcountchange", "jobs_removalsweep"]],
            )
            for (table,) in cursor.fetchall():
                cursor.execute(f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM {target})")
                found[f"{table}.{column}"] = cursor.fetchone()[0]
    assert len(found) > 10
    return {column: number for column, number in found.items() if number}


def broken() -> list[str]:
    return [each.invariant for each in violations() if "priorities" not in each.invariant]
