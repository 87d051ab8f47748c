"""Concurrent counts of groups' usage, on real connections (ADR 13)."""

from datetime import timedelta

import pytest

from matching.services import accounting
from taskqueues.models import UsageCounter, UsageInterval
from tests.factories import make_job, make_match
from tests.threads import at_once
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db(transaction=True)


def test_four_counts_at_once_count_everything_once() -> None:
    now = database_now()
    for minutes in range(20, 100, 10):
        begins = now - timedelta(minutes=minutes)
        make_match(job=make_job(status=JobStatus.DONE), leased_at=begins, ended_at=begins + timedelta(seconds=10))
    at_once([accounting.count_deliveries] * 4)
    assert UsageCounter.objects.count() == 1
    assert sum(UsageInterval.objects.values_list("matches", flat=True)) == 8
    assert sum(UsageInterval.objects.values_list("processor_s", flat=True)) == pytest.approx(80.0, abs=1e-3)
