"""Jobs by the host of the pilot of their last match."""

import pytest

from pilots.models import Pilot
from tests import factories
from tests.factories import NOW
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries.found_jobs import Extent

pytestmark = pytest.mark.django_db


def found(by: User, **values: str) -> tuple[list[int], dict[str | None, int]]:
    """Return the ids of the listed jobs, and their numbers by status."""
    filters = JobFilterSet({"host": "node1.cern.ch", **values})
    assert filters.is_valid()
    tallies = queries.summary(filters, by=by, group_by=["status"])
    ids = [job.pk for job in queries.listed(filters, Extent(at_most=10), by=by)]
    return ids, {tally.values["status"]: tally.count for tally in tallies}


def test_jobs_are_found_and_counted_by_the_host_of_their_last_match() -> None:
    operator = factories.make_user(operator=True)
    pilot, other = factories.make_pilot(), factories.make_pilot()
    Pilot.objects.filter(pk=pilot.pk).update(host_name="node1.cern.ch")
    Pilot.objects.filter(pk=other.pk).update(host_name="node2.cern.ch")
    first, second, third = (
        factories.make_job(status=status, pilot_id=pilot.pk, job_name=f"sim-{status}")
        for status in (JobStatus.DONE, JobStatus.FAILED, JobStatus.RUNNING)
    )
    # Matched twice by the same pilot; the other one by both.
    for job, of in ((first, pilot), (second, pilot), (second, pilot), (third, pilot), (third, other)):
        factories.make_match(job=job, pilot=of, ended_at=NOW)
    assert found(operator) == ([third.pk, second.pk, first.pk], {"Done": 1, "Failed": 1, "Running": 1})
    assert found(operator, status="Failed") == ([second.pk], {"Failed": 1})
    assert found(operator, job_name="sim-F*") == ([second.pk], {"Failed": 1})
    assert found(operator, job_group_id=str(first.submission_id)) == ([first.pk], {"Done": 1})
    assert found(operator, site="nowhere") == ([], {})
    assert found(second.owner) == ([second.pk], {"Failed": 1})
    Job.objects.filter(pk=third.pk).update(pilot_id=other.pk)
    assert found(operator)[0] == [second.pk, first.pk]
    # It waits again.
    Job.objects.filter(pk=second.pk).update(pilot_id=None)
    assert found(operator)[0] == [first.pk]
