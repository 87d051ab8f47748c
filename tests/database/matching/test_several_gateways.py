"""Advertisements of sites with several gateways."""

from dataclasses import replace
from datetime import timedelta

import pytest

from matching.services.throttles import TooManyGatewaysError, advertise, count
from resources.domain.advertised_load import CUR_MATCHES, CURRENT, GATHERING, MAX_SUBMITTING, SUBMITTING
from resources.domain.advertisements import Advertisement, of_classad, of_numbers
from resources.domain.enums import ThrottlePolicy
from resources.domain.gateways import MOST_GATEWAYS, gateway_states
from resources.models import ThrottleState
from tests.clock import pass_time, stop_clock
from tests.database.matching.throttled import configure, lease_at, numbers, state_of
from tests.factories import (
    make_throttled_site,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


def from_gateway(name: str, said: Advertisement) -> Advertisement:
    return replace(said, gateway=name)


def test_advertisements_of_gateways_are_added() -> None:
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


def test_a_custom_expression_is_evaluated_for_each_gateway_with_the_sums() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.CUSTOM, throttle_requirements="CurMatches < 6 && Load < 0.5")
    advertise(site.pk, from_gateway("one", of_classad("CurMatches = 2; Load = 0.1")))
    assert advertise(site.pk, from_gateway("two", of_classad("CurMatches = 2; Load = 0.2"))).room_left == 2
    assert not advertise(site.pk, from_gateway("two", of_classad("CurMatches = 2; Load = 0.7"))).accepting


def test_the_number_of_gateways_is_limited() -> None:
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


def test_a_changed_cycle_applies_to_each_gateway() -> None:
    stop_clock()
    site = make_throttled_site()
    advertise(site.pk, from_gateway("one", numbers(ago_s=100)))
    last = advertise(site.pk, from_gateway("two", numbers(ago_s=50)))
    configure(site, throttle_advertisement_s=100)
    assert last.measured_at is not None
    assert state_of(site).expires_at == last.measured_at + timedelta(seconds=50 + 300)
