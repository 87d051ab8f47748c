"""Advertisements of sites, the server's own counts instead, and their values after a change of configuration."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from matching.models import Match
from matching.services import site_throttle, throttles
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.site_throttle import ThrottleBusyError
from matching.services.throttles import ExpiredAdvertisementError, TooManyGatewaysError, advertise, count
from resources.domain.advertisements import Advertisement, of_classad, of_numbers
from resources.domain.classad import ClassAd
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.domain.gateways import MOST_GATEWAYS, gateway_states
from resources.domain.throttles import CUR_MATCHES, CURRENT, GATHERING, MAX_SUBMITTING, NO_JOB, SUBMITTING, Throttle
from resources.models import Site, ThrottleState
from resources.queries.throttles import standings, throttle_of
from resources.services.throttles import recompute
from tests.clock import pass_time, stop_clock
from tests.factories import (
    make_ce,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_site,
    make_throttled_site,
)
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


def numbers(
    submitting: int = 0, gathering: int = 0, current: int = 0, *, sequence: int | None = None, ago_s: float = 0
) -> Advertisement:
    said = {SUBMITTING: submitting, GATHERING: gathering, CURRENT: current}
    return of_numbers(said, sequence=sequence, measured_s_ago=ago_s)


def state_of(site: Site) -> ThrottleState:
    return ThrottleState.objects.get(site=site)


def lease_at(site: Site, *, ended_s_ago: float | None = None, **ago: float) -> Match:
    """Return a lease at a queue of the site, made this long ago by the database's clock."""
    now = database_now()
    queue = make_queue(ce=make_ce(site=site))
    match = make_match(
        job=make_job(status=JobStatus.RUNNING, site=site, queue=queue),
        leased_at=now - timedelta(**ago),
        ended_at=None if ended_s_ago is None else now - timedelta(seconds=ended_s_ago),
    )
    match.queue = queue
    match.save()
    return match


# ---- Advertisements --------------------------------------------------------------------------------------------------


def test_an_advertisement_leaves_the_room_that_the_policy_makes_of_it() -> None:
    site = make_throttled_site()
    standing = advertise(site.pk, numbers(submitting=2, sequence=7))
    assert (standing.accepting, standing.room_left, standing.cur_matches, standing.matched) == (True, 3, 2, 0)
    assert (standing.sequence, standing.ignored, standing.is_expired, standing.counts_itself) == (
        7,
        False,
        False,
        False,
    )
    assert standing.measured_at is not None
    assert standing.expires_at == standing.measured_at + timedelta(seconds=900)
    assert (state_of(site).room, state_of(site).version) == (3, 1)


def test_a_full_site_says_so() -> None:
    standing = advertise(make_throttled_site().pk, numbers(submitting=5))
    assert (standing.accepting, standing.room_left) == (False, 0)
    assert standing.why_closed == (
        "The site advertised CurrentSubmittingJobs = 5, which leaves no room: MaxSubmittingJobs is 5."
    )


def test_each_advertisement_begins_anew() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2))
    ThrottleState.objects.update(matched=3)
    pass_time(seconds=300)
    standing = advertise(site.pk, numbers(submitting=4))
    assert (standing.room_left, standing.matched) == (1, 0)
    assert state_of(site).version == 2


@pytest.mark.parametrize("sequence", [6, 7])
def test_a_sequence_not_above_the_last_changes_nothing(sequence: int) -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2, sequence=7))
    before = ThrottleState.objects.values().get()
    standing = advertise(site.pk, numbers(submitting=0, sequence=sequence))
    assert (standing.ignored, standing.room_left, standing.sequence) == (True, 3, 7)
    # Beside what is said of it at its gateway.
    (gateway,) = before["gateways"]
    after = ThrottleState.objects.values().get()
    said = {name: after["gateways"][0][name] for name in ("ignored_at", "why_ignored")}
    assert said["why_ignored"] == standing.why_ignored
    assert after == {**before, "gateways": [{**gateway, **said}]}


def test_an_ignored_advertisement_is_told_what_is_wrong_and_what_to_do() -> None:
    stop_clock()
    site = make_throttled_site(max_submitting_jobs=2)
    first = advertise(site.pk, numbers(submitting=2, sequence=9))
    assert first.measured_at is not None
    pass_time(seconds=10)
    standing = advertise(site.pk, numbers(sequence=4))
    measured, forgotten = (
        f"{moment:%Y-%m-%d %H:%M:%S UTC}" for moment in (first.measured_at, first.measured_at + timedelta(seconds=900))
    )
    assert standing.why_ignored == (
        f"Its sequence 4 is not above 9, that of the advertisement measured at {measured}; send a higher one, or none, "
        f"or wait until that one is forgotten at {forgotten}."
    )
    assert standing.last_sequence == (9, first.measured_at + timedelta(seconds=900))
    assert standing.why_closed.startswith("The site advertised CurrentSubmittingJobs = 2, which leaves no room")
    assert standing.why_closed.endswith(standing.why_ignored)
    assert "An advertisement was ignored at" in standing.why_closed
    # One that is accepted ends that.
    assert "ignored" not in advertise(site.pk, numbers(submitting=2, sequence=10)).why_closed


@pytest.mark.parametrize("when_expired", WhenExpired)
@pytest.mark.parametrize("counts", [True, False])
def test_a_sequence_is_forgotten_when_its_advertisement_expires(when_expired: WhenExpired, counts: bool) -> None:
    stop_clock()
    site = make_throttled_site(throttle_when_expired=when_expired)
    advertise(site.pk, numbers(sequence=2**62))
    pass_time(seconds=899)
    assert advertise(site.pk, numbers(sequence=1)).ignored
    pass_time(seconds=1)
    if counts:
        count(site.pk)
    standing = advertise(site.pk, numbers(submitting=1, sequence=1))
    assert (standing.ignored, standing.sequence, standing.room_left) == (False, 1, 4)


def test_advertisements_without_a_sequence_do_not_keep_one_alive() -> None:
    stop_clock()
    site = make_throttled_site()
    advertise(site.pk, numbers(sequence=2**62))
    for _ in range(3):
        pass_time(seconds=300)
        assert not advertise(site.pk, numbers()).ignored
    assert not advertise(site.pk, numbers(sequence=1)).ignored


def test_without_a_sequence_it_is_always_taken_and_the_last_sequence_stays() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2, sequence=7))
    assert advertise(site.pk, numbers(submitting=1)).room_left == 4
    assert advertise(site.pk, numbers(submitting=0, sequence=7)).ignored
    assert not advertise(site.pk, numbers(submitting=0, sequence=8)).ignored


def test_one_measured_before_the_last_is_ignored() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2))
    assert advertise(site.pk, numbers(submitting=0, ago_s=10)).ignored
    pass_time(seconds=20)
    assert not advertise(site.pk, numbers(submitting=0, ago_s=10)).ignored


@pytest.mark.parametrize("ago_s", [900, 10_000])
def test_one_that_has_expired_already_is_refused_and_changes_nothing(ago_s: int) -> None:
    site = make_throttled_site()
    with pytest.raises(ExpiredAdvertisementError, match="measure again"):
        advertise(site.pk, numbers(ago_s=ago_s))
    assert not ThrottleState.objects.exists()


def test_matches_since_the_measurement_count_whatever_became_of_their_jobs() -> None:
    site = make_throttled_site()
    lease_at(site, seconds=50)
    lease_at(site, seconds=50, ended_s_ago=10)
    killed = lease_at(site, seconds=50)
    Job.objects.filter(pk=killed.job_id).update(status=JobStatus.KILLED, ended_at=database_now())
    # A pilot that is bound to no queue.
    Match.objects.filter(pk=lease_at(site, seconds=50).pk).update(queue=None)
    # None of these counts.
    lease_at(site, seconds=70)
    lease_at(site, seconds=70, ended_s_ago=10)
    lease_at(make_site(), seconds=50)
    assert advertise(site.pk, numbers(ago_s=60)).matched == 4
    assert state_of(site).room == 5
    assert advertise(site.pk, numbers()).matched == 0


def test_a_job_that_has_gone_elsewhere_since_counts_where_it_was_matched() -> None:
    site, other = make_throttled_site(), make_site()
    match = lease_at(site, seconds=50, ended_s_ago=30)
    Job.objects.filter(pk=match.job_id).update(site=other)
    assert advertise(site.pk, numbers(ago_s=60)).matched == 1


def test_the_matches_since_may_have_filled_the_room_already() -> None:
    site = make_throttled_site(max_submitting_jobs=2)
    lease_at(site, seconds=5)
    lease_at(site, seconds=5)
    standing = advertise(site.pk, numbers(ago_s=60))
    assert (standing.accepting, standing.room_left, standing.cur_matches) == (False, 0, 2)
    assert standing.why_closed == "2 matches since the measurement, which left room for 2."


def test_the_smaller_maximum_rules() -> None:
    site = make_throttled_site(max_submitting_jobs=5)
    said = {SUBMITTING: 1, GATHERING: 0, CURRENT: 1}
    assert advertise(site.pk, of_numbers({**said, MAX_SUBMITTING: 3})).room_left == 2
    assert advertise(site.pk, of_numbers({**said, MAX_SUBMITTING: 30})).room_left == 4


def test_of_a_site_without_throttle_nothing_is_kept() -> None:
    site = make_site()
    standing = advertise(site.pk, numbers(submitting=1000, ago_s=10_000))
    assert (standing.policy, standing.accepting, standing.expires_at) == (ThrottlePolicy.NONE, True, None)
    assert not ThrottleState.objects.exists()


def test_a_site_that_is_gone_is_told() -> None:
    with pytest.raises(Site.DoesNotExist):
        advertise(0, numbers())


def test_an_expression_is_closed_unless_cur_matches_is_known() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 3")
    standing = advertise(site.pk, of_classad("[ CurrentJobs = 1 ]"))
    assert (standing.accepting, standing.room_left, standing.cur_matches) == (False, 0, None)
    assert standing.why_closed.startswith("The site has no value of CurMatches")
    assert advertise(site.pk, of_classad("[ CurMatches = 1 ]")).room_left == 2
    assert advertise(site.pk, numbers()).room_left == 3  # as numbers it starts at 0
    closed = advertise(site.pk, of_classad("CurMatches = 3"))
    assert closed.why_closed == "The site's expression is not TRUE at CurMatches 3."


def test_an_expression_about_the_job_may_accept() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="TARGET.NumberOfProcessors < 3")
    standing = advertise(site.pk, numbers())
    assert (standing.accepting, standing.room_left) == (True, None)


# ---- Several gateways ------------------------------------------------------------------------------------------------


def from_gateway(name: str, said: Advertisement) -> Advertisement:
    return replace(said, gateway=name)


def test_what_several_gateways_advertise_adds_up() -> None:
    site = make_throttled_site()
    advertise(site.pk, from_gateway("one", numbers(submitting=2)))
    standing = advertise(site.pk, from_gateway("two", numbers(submitting=2)))
    assert (standing.cur_matches, standing.room_left, standing.accepting) == (4, 1, True)
    assert state_of(site).advertised == {SUBMITTING: 4, GATHERING: 0, CURRENT: 0, CUR_MATCHES: 0}
    closed = advertise(site.pk, from_gateway("one", numbers(submitting=3)))
    assert (closed.cur_matches, closed.accepting) == (5, False)
    # Those that give no name are one.
    assert advertise(site.pk, numbers(submitting=1)).cur_matches == 6
    assert advertise(site.pk, numbers(submitting=2)).cur_matches == 7


def test_a_gateway_that_falls_silent_is_left_out_when_its_advertisement_has_expired() -> None:
    stop_clock()
    site = make_throttled_site()
    advertise(site.pk, from_gateway("silent", numbers(submitting=3)))
    for _ in range(2):
        pass_time(seconds=300)
        assert advertise(site.pk, from_gateway("other", numbers(submitting=1))).cur_matches == 4
    pass_time(seconds=300)
    assert advertise(site.pk, from_gateway("other", numbers(submitting=1))).cur_matches == 1
    assert [each.name for each in gateway_states(state_of(site).gateways)] == ["other"]
    pass_time(seconds=900)
    assert count(site.pk)
    assert state_of(site).gateways == []


def test_each_gateway_has_a_sequence_of_its_own() -> None:
    site = make_throttled_site()
    advertise(site.pk, from_gateway("one", numbers(sequence=1_700_000_000_000)))
    assert not advertise(site.pk, from_gateway("two", numbers(sequence=1))).ignored
    assert advertise(site.pk, from_gateway("two", numbers(sequence=1))).ignored
    assert not advertise(site.pk, from_gateway("two", numbers(sequence=2))).ignored
    assert advertise(site.pk, from_gateway("one", numbers(sequence=3))).sequence == 1_700_000_000_000


def test_matches_since_the_earliest_measurement_of_the_gateways_count() -> None:
    site = make_throttled_site()
    lease_at(site, seconds=50)
    lease_at(site, seconds=20)
    assert advertise(site.pk, from_gateway("one", numbers(ago_s=60))).matched == 2
    # Nobody knows through which of them a job came.
    assert advertise(site.pk, from_gateway("two", numbers(ago_s=30))).matched == 2
    assert advertise(site.pk, from_gateway("one", numbers(ago_s=10))).matched == 1


def test_a_gateway_keeps_its_own_maximum_and_requirements_beside_others() -> None:
    site = make_throttled_site(max_submitting_jobs=100)
    said = {SUBMITTING: 3, GATHERING: 0, CURRENT: 3}
    advertise(site.pk, from_gateway("large", of_numbers({**said, MAX_SUBMITTING: 50})))
    assert advertise(site.pk, from_gateway("small", of_numbers({**said, MAX_SUBMITTING: 5}))).room_left == 2
    text = "CurrentSubmittingJobs = 3; Requirements = CurMatches < 4"
    standing = advertise(site.pk, from_gateway("small", of_classad(text)))
    assert (standing.cur_matches, standing.room_left, state_of(site).room) == (6, 1, None)
    closed = advertise(site.pk, from_gateway("small", of_classad("CurrentSubmittingJobs = 3; Requirements = false")))
    assert closed.why_closed == "The Requirements that the gateway small of the site advertised are FALSE."


def test_a_custom_expression_is_asked_of_each_gateway_with_the_sums() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 6 && Load < 0.5")
    advertise(site.pk, from_gateway("one", of_classad("CurMatches = 2; Load = 0.1")))
    assert advertise(site.pk, from_gateway("two", of_classad("CurMatches = 2; Load = 0.2"))).room_left == 2
    assert not advertise(site.pk, from_gateway("two", of_classad("CurMatches = 2; Load = 0.7"))).accepting


def test_so_many_gateways_are_too_many() -> None:
    stop_clock()
    site = make_throttled_site(max_submitting_jobs=100)
    for number in range(MOST_GATEWAYS):
        advertise(site.pk, from_gateway(f"gateway {number}", numbers(submitting=1)))
    before = ThrottleState.objects.values().get()
    with pytest.raises(TooManyGatewaysError, match="use one of their names"):
        advertise(site.pk, from_gateway("another", numbers()))
    assert ThrottleState.objects.values().get() == before
    assert advertise(site.pk, from_gateway("gateway 1", numbers(submitting=2))).cur_matches == MOST_GATEWAYS + 1
    pass_time(seconds=900)
    assert advertise(site.pk, from_gateway("another", numbers())).cur_matches == 0


def test_another_cycle_holds_for_each_gateway() -> None:
    stop_clock()
    site = make_throttled_site()
    advertise(site.pk, from_gateway("one", numbers(ago_s=100)))
    last = advertise(site.pk, from_gateway("two", numbers(ago_s=50)))
    configure(site, throttle_advertisement_s=100)
    assert last.measured_at is not None
    assert state_of(site).expires_at == last.measured_at + timedelta(seconds=50 + 300)


# ---- In its place ----------------------------------------------------------------------------------------------------


def test_never_advertised_is_counted_by_the_server() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.LEVEL1)
    for status in (JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING, JobStatus.STALLED, JobStatus.DONE):
        make_job(status=status, site=site)
    make_job(status=JobStatus.MATCHED, site=make_site())
    assert count(site.pk)
    state = state_of(site)
    assert state.advertised == {SUBMITTING: 1, GATHERING: 1, CURRENT: 4, CUR_MATCHES: 0}
    assert (state.room, state.matched, state.advertised_at) == (3, 0, None)
    assert state.expires_at == state.measured_at + timedelta(seconds=300)


def test_an_advertisement_that_holds_is_not_counted_over() -> None:
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


def test_a_site_that_would_rather_be_closed_stays_closed() -> None:
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


def test_what_the_server_counted_is_counted_again_when_it_is_full() -> None:
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


def test_an_expression_gets_what_the_server_counted() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurrentJobs + CurMatches < 2")
    make_job(status=JobStatus.RUNNING, site=site)
    assert count(site.pk)
    standing = throttle_of(site, state_of(site), now=database_now())
    assert standing is not None
    assert (standing.room_left, standing.counts_itself) == (1, True)


def test_the_site_knows_better_than_the_server() -> None:
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


def test_what_the_policy_needs_and_nobody_said_closes_it_by_name() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.LEVEL1)
    standing = advertise(site.pk, of_classad("CurrentSubmittingJobs = 0"))
    assert not standing.accepting
    assert standing.why_closed == (
        "The site has no value of CurrentGatheringOutputJobs, which the policy level1 requires."
    )


# ---- Configuration ---------------------------------------------------------------------------------------------------


def configure(site: Site, **fields: object) -> None:
    with transaction.atomic():
        for name, value in fields.items():
            setattr(site, name, value)
        site.save()
        recompute(site)


def test_another_maximum_holds_for_what_was_advertised_before() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2))
    ThrottleState.objects.update(matched=2)
    configure(site, max_submitting_jobs=10)
    assert (state_of(site).room, state_of(site).matched, state_of(site).version) == (8, 2, 2)
    configure(site, throttle_policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 2")
    assert state_of(site).room is None


def test_another_cycle_holds_from_the_measurement_on() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers())
    configure(site, throttle_advertisement_s=100)
    assert state_of(site).expires_at == state_of(site).measured_at + timedelta(seconds=300)


def test_without_a_policy_nothing_is_kept() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers())
    configure(site, throttle_policy=ThrottlePolicy.NONE)
    assert not ThrottleState.objects.exists()
    configure(site, throttle_policy=ThrottlePolicy.LEVEL0)
    assert not ThrottleState.objects.exists()


# ---- Cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 40])
def test_neither_takes_more_statements_for_more_jobs(many: int) -> None:
    site = make_throttled_site()
    for _ in range(many):
        lease_at(site, seconds=50)
    with CaptureQueriesContext(connection) as first:
        count(site.pk)
    with CaptureQueriesContext(connection) as second:
        advertise(site.pk, numbers(ago_s=60))
    statements = [each["sql"] for each in (*first, *second) if "SAVEPOINT" not in each["sql"]]
    assert len(statements) <= 9 + 7


def test_the_pilot_without_a_queue_counts_where_its_job_was_matched_last() -> None:
    site = make_throttled_site()
    make_match(job=make_job(status=JobStatus.RUNNING, site=site), pilot=make_pilot(), leased_at=database_now())
    assert throttles.advertise(site.pk, numbers(ago_s=10)).matched == 1


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


def test_an_expression_that_asks_nothing_of_jobs_is_asked_once_for_all_of_them(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 0")
    count(site.pk)
    assert matched_at(site, job_types=[f"type {number}" for number in range(20)]) == 0
    assert evaluations == {"refused": 1}


def test_an_expression_is_asked_once_about_jobs_that_are_alike_to_it(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements='TARGET.OwnerGroup == "nobody"')
    count(site.pk)
    assert matched_at(site, job_types=[f"type {number}" for number in range(20)]) == 0
    # Beside that, both readings of the request remember nothing of each other within a transaction.
    assert evaluations["refused"] <= 2


def test_a_pilot_whose_request_takes_too_long_to_evaluate_is_asked_to_repeat_it(
    evaluations: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_throttle, "PATIENCE_S", -1.0)
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="TARGET.GPUs == 0")
    count(site.pk)
    with pytest.raises(ThrottleBusyError) as raised:
        matched_at(site, job_types=["User"])
    assert (raised.value.code, raised.value.retry_after_s) == ("throttle_busy", 2)
    assert evaluations == {}


def test_a_throttle_whose_policy_was_written_behind_its_back_is_asked_still(evaluations: Counter[str]) -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 5")
    count(site.pk)
    Site.objects.filter(pk=site.pk).update(throttle_policy=ThrottlePolicy.MATCHES, max_matches=1)
    assert matched_at(site, job_types=["User", "User"]) == 1
