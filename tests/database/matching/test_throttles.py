"""Counts by the server in place of advertisements; configuration, expressions and cost of throttles."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from matching.services import site_throttle
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.site_throttle import ThrottleBusyError
from matching.services.throttles import advertise, count
from resources.domain.advertised_load import CUR_MATCHES, CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_classad
from resources.domain.classad import ClassAd
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.domain.throttle_conditions import NO_JOB
from resources.domain.throttles import Throttle
from resources.models import Site, ThrottleState
from resources.queries.throttles import standings, throttle_of
from tests.clock import pass_time, stop_clock
from tests.database.matching.throttled import configure, lease_at, numbers, state_of
from tests.factories import (
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_site,
    make_throttled_site,
)
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


# ---- Counts by the server --------------------------------------------------------------------------------------------


def test_a_site_without_advertisements_is_counted_by_the_server() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.LEVEL1)
    for status in (JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING, JobStatus.STALLED, JobStatus.DONE):
        make_job(status=status, site=site)
    make_job(status=JobStatus.MATCHED, site=make_site())
    assert count(site.pk)
    state = state_of(site)
    assert state.advertised == {SUBMITTING: 1, GATHERING: 1, CURRENT: 4, CUR_MATCHES: 0}
    assert (state.room, state.matched, state.advertised_at) == (3, 0, None)
    assert state.expires_at == state.measured_at + timedelta(seconds=300)


def test_a_valid_advertisement_is_not_replaced_by_a_count() -> None:
    stop_clock()
    site = make_throttled_site(max_submitting_jobs=2)
    advertise(site.pk, numbers(submitting=1))
    assert count(site.pk)
    ThrottleState.objects.update(matched=1)
    assert not count(site.pk)
    pass_time(seconds=899)
    assert not count(site.pk)
    assert state_of(site).version == 1
    pass_time(seconds=2)
    assert count(site.pk)
    assert (state_of(site).version, state_of(site).room, state_of(site).advertised_at) == (2, 2, None)


def test_a_site_configured_to_close_stays_closed() -> None:
    site = make_throttled_site(throttle_when_expired=WhenExpired.CLOSED)
    assert not count(site.pk)
    assert not ThrottleState.objects.exists()
    advertise(site.pk, numbers())
    assert count(site.pk)
    pass_time(seconds=901)
    assert not count(site.pk)
    standing = throttle_of(site, state_of(site), now=database_now())
    assert standing is not None
    assert (standing.accepting, standing.room_left, standing.is_expired) == (False, 0, True)
    assert "stays closed until an advertisement of it is accepted" in standing.why_closed


def test_a_full_counted_throttle_is_counted_again() -> None:
    site = make_throttled_site(max_submitting_jobs=1)
    job = make_job(status=JobStatus.MATCHED, site=site)
    assert not count(site.pk)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RUNNING)
    assert count(site.pk)


@pytest.mark.parametrize("policy", [ThrottlePolicy.MATCHES])
def test_matches_are_not_counted_again_before_the_cycle_is_over(policy: ThrottlePolicy) -> None:
    site = make_throttled_site(policy=policy, max_matches=1)
    assert count(site.pk)
    ThrottleState.objects.update(matched=1)
    assert not count(site.pk)
    pass_time(seconds=301)
    assert count(site.pk)
    assert state_of(site).matched == 0


def test_an_expression_reads_the_counts_of_the_server() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurrentJobs + CurMatches < 2")
    make_job(status=JobStatus.RUNNING, site=site)
    assert count(site.pk)
    standing = throttle_of(site, state_of(site), now=database_now())
    assert standing is not None
    assert (standing.room_left, standing.counts_itself) == (1, True)


def test_an_advertisement_replaces_the_count_of_the_server() -> None:
    site = make_throttled_site()
    count(site.pk)
    standing = advertise(site.pk, numbers(submitting=4, ago_s=10))
    assert (standing.ignored, standing.room_left, standing.counts_itself) == (False, 1, False)


def test_a_site_whose_throttle_was_removed_takes_matches() -> None:
    assert count(make_site().pk)


# ---- Reading ---------------------------------------------------------------------------------------------------------


def test_the_throttles_of_many_sites_are_read_at_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    free, never, full = make_site(), make_throttled_site(), make_throttled_site(max_submitting_jobs=0)
    advertise(full.pk, numbers())
    now = database_now()
    with django_assert_num_queries(1):
        found = standings([free, never, full], now=now)
    assert found.keys() == {never.pk, full.pk}
    assert (found[never.pk].is_expired, found[never.pk].accepting, found[never.pk].room_left) == (True, True, None)
    assert (found[full.pk].is_expired, found[full.pk].accepting, found[full.pk].room_left) == (False, False, 0)
    assert throttle_of(free, None, now=now) is None


def test_a_missing_value_of_the_policy_closes_the_site_by_name() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.LEVEL1)
    standing = advertise(site.pk, of_classad("CurrentSubmittingJobs = 0"))
    assert not standing.accepting
    assert standing.why_closed == (
        "The site has no value of CurrentGatheringOutputJobs, which the policy level1 requires."
    )


# ---- Configuration ---------------------------------------------------------------------------------------------------


def test_a_changed_maximum_applies_to_earlier_advertisements() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2))
    ThrottleState.objects.update(matched=2)
    configure(site, max_submitting_jobs=10)
    assert (state_of(site).room, state_of(site).matched, state_of(site).version) == (8, 2, 2)
    configure(site, throttle_policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 2")
    assert state_of(site).room is None


def test_a_changed_cycle_applies_from_the_measurement() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers())
    configure(site, throttle_advertisement_s=100)
    assert state_of(site).expires_at == state_of(site).measured_at + timedelta(seconds=300)


def test_without_a_policy_no_state_is_stored() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers())
    configure(site, throttle_policy=ThrottlePolicy.NONE)
    assert not ThrottleState.objects.exists()
    configure(site, throttle_policy=ThrottlePolicy.LEVEL0)
    assert not ThrottleState.objects.exists()


# ---- Cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 40])
def test_throttle_checks_need_a_constant_number_of_statements(many: int) -> None:
    site = make_throttled_site()
    for _ in range(many):
        lease_at(site, seconds=50)
    with CaptureQueriesContext(connection) as first:
        count(site.pk)
    with CaptureQueriesContext(connection) as second:
        advertise(site.pk, numbers(ago_s=60))
    statements = [each["sql"] for each in (*first, *second) if "SAVEPOINT" not in each["sql"]]
    assert len(statements) <= 9 + 7


# ---- Expressions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the numbers of evaluations of expressions, by their result."""
    answers: Counter[str] = Counter()
    accepts = Throttle.accepts

    def counting(throttle: Throttle, *, matched: int, job: ClassAd = NO_JOB) -> bool:
        accepted = accepts(throttle, matched=matched, job=job)
        answers["accepted" if accepted else "refused"] += 1
        return accepted

    monkeypatch.setattr(Throttle, "accepts", counting)
    return answers


def matched_at(site: Site, *, job_types: Sequence[str]) -> int:
    """Add a job of each type; return the number of leases that a pilot at the site gets by one request."""
    group = make_group(shares_jobs=True)
    for job_type in job_types:
        make_job(group=group, job_type=job_type)
    pilot = make_pilot(vo=group.vo, queue=make_queue(ce=make_ce(site=site)))
    request = OfferRequest(cpu_time_s=300_000)
    return len(match(request, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)))


def test_an_expression_without_job_attributes_is_evaluated_once(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 0")
    count(site.pk)
    assert matched_at(site, job_types=[f"type {number}" for number in range(20)]) == 0
    assert evaluations == {"refused": 1}


def test_an_expression_is_evaluated_once_for_equal_jobs(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements='TARGET.OwnerGroup == "nobody"')
    count(site.pk)
    assert matched_at(site, job_types=[f"type {number}" for number in range(20)]) == 0
    # Beside that, both readings of the request remember nothing of each other within a transaction.
    assert evaluations["refused"] <= 2


def test_an_evaluation_time_out_is_503_to_repeat(evaluations: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_throttle, "PATIENCE_S", -1.0)
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="TARGET.GPUs == 0")
    count(site.pk)
    with pytest.raises(ThrottleBusyError) as raised:
        matched_at(site, job_types=["User"])
    assert (raised.value.code, raised.value.retry_after_s) == ("throttle_busy", 2)
    assert evaluations == {}


def test_a_policy_changed_by_sql_is_evaluated(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 5")
    count(site.pk)
    Site.objects.filter(pk=site.pk).update(throttle_policy=ThrottlePolicy.MATCHES, max_matches=1)
    assert matched_at(site, job_types=["User", "User"]) == 1
