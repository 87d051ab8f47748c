"""Advertisements of sites, and the matches that count beside them."""

from datetime import timedelta

import pytest

from matching.models import Match
from matching.services import throttles
from matching.services.throttles import ExpiredAdvertisementError, advertise, count
from resources.domain.advertised_load import CURRENT, GATHERING, MAX_SUBMITTING, SUBMITTING
from resources.domain.advertisements import of_classad, of_numbers
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import Site, ThrottleState
from tests.clock import pass_time, stop_clock
from tests.database.matching.throttled import lease_at, numbers, state_of
from tests.factories import (
    make_job,
    make_match,
    make_pilot,
    make_site,
    make_throttled_site,
)
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


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


def test_an_advertisement_of_a_full_site_is_answered_as_full() -> None:
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


def test_an_ignored_advertisement_gets_reason_and_remedy() -> None:
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


def test_an_advertisement_without_sequence_is_always_accepted() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2, sequence=7))
    assert advertise(site.pk, numbers(submitting=1)).room_left == 4
    assert advertise(site.pk, numbers(submitting=0, sequence=7)).ignored
    assert not advertise(site.pk, numbers(submitting=0, sequence=8)).ignored


def test_an_advertisement_measured_before_the_last_is_ignored() -> None:
    site = make_throttled_site()
    advertise(site.pk, numbers(submitting=2))
    assert advertise(site.pk, numbers(submitting=0, ago_s=10)).ignored
    pass_time(seconds=20)
    assert not advertise(site.pk, numbers(submitting=0, ago_s=10)).ignored


@pytest.mark.parametrize("ago_s", [900, 10_000])
def test_an_expired_advertisement_is_refused(ago_s: int) -> None:
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


def test_a_moved_job_counts_at_the_site_of_its_match() -> None:
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


def test_the_smaller_maximum_applies() -> None:
    site = make_throttled_site(max_submitting_jobs=5)
    said = {SUBMITTING: 1, GATHERING: 0, CURRENT: 1}
    assert advertise(site.pk, of_numbers({**said, MAX_SUBMITTING: 3})).room_left == 2
    assert advertise(site.pk, of_numbers({**said, MAX_SUBMITTING: 30})).room_left == 4


def test_advertisements_of_sites_without_throttle_are_not_stored() -> None:
    site = make_site()
    standing = advertise(site.pk, numbers(submitting=1000, ago_s=10_000))
    assert (standing.policy, standing.accepting, standing.expires_at) == (ThrottlePolicy.NONE, True, None)
    assert not ThrottleState.objects.exists()


def test_an_advertisement_of_a_deleted_site_is_refused() -> None:
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


def test_the_pilot_without_a_queue_counts_where_its_job_was_matched_last() -> None:
    site = make_throttled_site()
    make_match(job=make_job(status=JobStatus.RUNNING, site=site), pilot=make_pilot(), leased_at=database_now())
    assert throttles.advertise(site.pk, numbers(ago_s=10)).matched == 1
