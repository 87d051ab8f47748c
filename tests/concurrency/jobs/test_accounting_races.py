"""The accounting while jobs start and end, several of its runs are at work, and some transactions commit late."""

from datetime import UTC, datetime
from random import Random
from time import sleep

import pytest
from django.db import transaction
from django.db.models import Count, Sum

from tests import factories
from tests.threads import at_once
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobBucket, JobHistory
from wms.jobs.services import transitions
from wms.jobs.services.accounting import account

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
ENDS = (JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_change_is_counted_once_in_any_commit_order(seed: int) -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    jobs = [factories.make_job(owner=alice, group=group, status=JobStatus.MATCHED) for _ in range(48)]
    account(now=NOON)
    runs: list[bool] = []

    def living(own: list[Job], chance: Random) -> None:
        for job in own:
            with transaction.atomic():
                transitions.move(job.pk, status=JobStatus.RUNNING, source="x", now=NOON)
                # Committed after lines that were written later.
                sleep(chance.choice([0, 0, 0.02]))
            if chance.random() < 0.8:
                with transaction.atomic():
                    transitions.move(job.pk, status=chance.choice(ENDS), source="x", now=NOON)

    def accounting() -> None:
        runs.extend(account(now=NOON) for _ in range(25))

    def living_of(part: int) -> None:
        living(jobs[part::4], Random(10 * seed + part))

    at_once([*((lambda part=part: living_of(part)) for part in range(4)), accounting, accounting, accounting])
    account(now=NOON)
    assert any(runs)
    written = dict(JobHistory.objects.values_list("status").annotate(Count("pk")).order_by())
    for width in Width:
        counted = JobBucket.objects.filter(width_s=width).aggregate(
            Running=Sum("started"), Done=Sum("done"), Failed=Sum("failed"), Killed=Sum("killed")
        )
        assert counted == {status: written.get(status, 0) for status in ("Running", *ENDS)}
    assert written["Running"] == len(jobs)
    assert Job.objects.filter(status__in=ENDS).count() == sum(written[status] for status in ENDS)
