"""Numbers of jobs while jobs are submitted, held and killed, and several runs add changes to the counters."""

import pytest

from tests import factories
from tests.factories import NOW, submit
from tests.threads import at_once
from wms.jobs import queries
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job, JobCountChange
from wms.jobs.services import bulk, counting
from wms.jobs.sql.counts import wrong_job_counts

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 15


# Few changes are counted by the trigger, each, and many by their statement, in groups.
@pytest.mark.parametrize("jobs_of_request", [4, 30])
def test_no_change_is_lost_or_counted_twice_and_every_snapshot_is_exact(jobs_of_request: int) -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    request = parse_submission({"jobs": [{"executable": "a.sh"}] * jobs_of_request})
    seen: list[int] = []
    wrong: list[int] = []

    def submitting() -> None:
        for _ in range(ROUNDS):
            submit(request, owner=alice, now=NOW)

    def acting() -> None:
        for number in range(ROUNDS):
            jobs = list(Job.objects.order_by("-pk").values_list("pk", flat=True)[: jobs_of_request + number % 3])
            bulk.act_on((Action.HOLD, Action.RELEASE, Action.KILL)[number % 3], jobs, by=alice, now=NOW)

    def adding() -> None:
        for _ in range(ROUNDS):
            counting.add_changes()

    def reading() -> None:
        for _ in range(ROUNDS):
            filters = JobFilterSet({"owner": alice.username})
            assert filters.is_valid()
            seen.append(sum(tally.count for tally in queries.summary(filters, by=alice, group_by=("status",))))
            wrong.append(wrong_job_counts())

    at_once([submitting, submitting, acting, acting, adding, adding, counting.recount, reading, reading])
    assert set(wrong) == {0}
    # A request is counted whole or not at all.
    assert all(number % jobs_of_request == 0 for number in seen)
    assert Job.objects.count() == 2 * ROUNDS * jobs_of_request
    counting.add_changes()
    assert not JobCountChange.objects.exists()
    assert wrong_job_counts() == 0
