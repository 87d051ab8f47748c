"""The upgrade of a database whose jobs have their descriptions and outputs in their rows (ADR 57)."""

import json
from random import Random
from uuid import uuid4

import pytest
from django.db import connection

from matching.models import Match
from matching.services import leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from tests.factories import make_group, make_job, make_pilot, make_user
from tests.migrations import before_narrow_jobs
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, OutputTail, StoredDescription
from wms.jobs.sql.counts import wrong_job_counts
from wms.kernel.protocol import Tails, Usage

_BEFORE = "SELECT id, description, std_output_tail FROM jobs_job ORDER BY id"
_ROW_BYTES = "SELECT pg_column_size(job.*) FROM jobs_job AS job ORDER BY id DESC LIMIT 1"


def rows(statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def columns() -> list[dict[str, object]]:
    """Return what jobs have in their rows, but for their descriptions, which are numbered anew."""
    names = [field.attname for field in Job._meta.concrete_fields if field.name != "stored_description"]
    return [dict(row) for row in Job.objects.order_by("pk").values(*names)]


@pytest.mark.django_db(transaction=True)
def test_jobs_in_every_status_keep_what_they_have_and_go_on() -> None:
    group = make_group()
    alice = make_user(groups=[group])
    pilot = make_pilot(vo=group.vo)
    for status in JobStatus:
        for number in range(3):
            # Of each status two jobs share their description, with each other and with those of other statuses.
            arguments = f"{status} only" if number == 0 else "shared"
            tail = f"é {status}\n" * number
            make_job(group=group, owner=alice, status=status, arguments=arguments, std_output_tail=tail)
    held = {}
    for number, job in enumerate(Job.objects.filter(status__in=sorted(LEASED))):
        held[job.pk] = Match.objects.create(
            job=job,
            pilot=pilot,
            request_id=uuid4(),
            ordinal=number,
            leased_at=job.submitted_at,
            expires_at=job.submitted_at,
            reported_status=JobStatus.RUNNING,
        ).pk
    before = columns()
    texts = {job.pk: (job.description, job.std_output_tail) for job in Job.objects.order_by("pk")}

    with before_narrow_jobs():
        assert {pk: (json.loads(str(description)), tail) for pk, description, tail in rows(_BEFORE)} == texts
        ((wide_bytes,),) = rows(_ROW_BYTES)

    assert columns() == before
    assert {job.pk: (job.description, job.std_output_tail) for job in Job.objects.order_by("pk")} == texts
    assert StoredDescription.objects.count() == len(JobStatus) + 1
    assert OutputTail.objects.count() == 2 * len(JobStatus)
    ((narrow_bytes,),) = rows(_ROW_BYTES)
    assert isinstance(narrow_bytes, int)
    assert isinstance(wide_bytes, int)
    assert narrow_bytes < wide_bytes / 2
    assert wrong_job_counts() == 0

    running = Job.objects.filter(status=JobStatus.RUNNING).first()
    assert running is not None
    leases.heartbeat(held[running.pk], usage=Usage(cpu_s=1.0), tails=Tails("later"), acknowledged=[])
    assert Job.objects.get(pk=running.pk).std_output_tail == "later"
    (lease,) = match(
        OfferRequest(cpu_time_s=300_000),
        request_id=uuid4(),
        pilot_id=make_pilot(vo=group.vo).pk,
        max_jobs=1,
        chance=Random(1),
    )
    assert lease.description == texts[lease.job_id][0]
