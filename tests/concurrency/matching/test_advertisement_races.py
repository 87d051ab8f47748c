"""Advertisements, counts and claims at one site at once: no match is lost or counted twice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction

from matching.models import Match
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.throttles import advertise, count
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import Advertisement, of_numbers
from resources.domain.enums import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.services.throttles import recompute
from tests.concurrency.matching.test_match_races import drain
from tests.factories import (
    LARGE_SLOT,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_throttled_site,
    make_user,
)
from tests.pace import within
from tests.threads import Answer, at_once, until_somebody_waits_for_a_lock
from wms.jobs.domain.lifecycle import JobStatus

pytestmark = pytest.mark.django_db(transaction=True)


def advertisement(submitting: int, *, sequence: int | None = None, ago_s: float = 0) -> Advertisement:
    numbers = {SUBMITTING: submitting, GATHERING: 0, CURRENT: submitting}
    return of_numbers(numbers, sequence=sequence, measured_s_ago=ago_s)


def test_the_first_advertisements_of_a_site_at_once_leave_the_last_of_them() -> None:
    site = make_throttled_site(max_submitting_jobs=100)
    sequences = list(range(1, 13))
    Random(1).shuffle(sequences)
    works = [partial(advertise, site.pk, advertisement(sequence, sequence=sequence)) for sequence in sequences]
    answers = at_once(works)

    state = ThrottleState.objects.get()
    assert (state.gateways[0]["sequence"], state.advertised[SUBMITTING], state.room) == (12, 12, 88)
    taken = [answer for answer in answers if not answer.ignored]
    assert state.version == len(taken)
    # Each that was ignored was told what held then: a later one.
    for sequence, answer in zip(sequences, answers, strict=True):
        assert answer.sequence is not None
        assert answer.sequence > sequence if answer.ignored else answer.sequence == sequence


def test_first_counts_at_once_are_one_count() -> None:
    site = make_throttled_site(policy=ThrottlePolicy.MATCHES, max_matches=3)
    make_job(status=JobStatus.MATCHED, site=site)
    assert at_once([partial(count, site.pk)] * 8) == [True] * 8
    assert ThrottleState.objects.get().version == 1


def test_no_match_is_lost_between_an_advertisement_and_the_claims_around_it() -> None:
    """All matches are younger than each measurement, so at the end each counts, once."""
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    site = make_throttled_site(max_submitting_jobs=10_000)
    queue = make_queue(ce=make_ce(site=site), **LARGE_SLOT)
    for _ in range(300):
        make_job(group=group, owner=owner, cpu_time_s=500)
    advertise(site.pk, advertisement(0))
    ThrottleState.objects.update(advertised_at=None)  # as if counted, so that an older measurement is taken
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(6)]

    def keep_advertising() -> list[int]:
        # Measured ever later, but always before the first match.
        for number in range(40):
            assert not advertise(site.pk, advertisement(0, ago_s=600 - number)).ignored
        return []

    works: list[Callable[[], list[int]]] = [partial(drain, pilot, seed=n) for n, pilot in enumerate(pilots)]
    answers = at_once([*works, keep_advertising])
    assert sum(map(len, answers)) == 300 == Match.objects.count()
    assert ThrottleState.objects.get().matched == 300


def test_an_advertisement_waits_for_the_claim_that_has_not_committed_and_counts_its_match() -> None:
    group = make_group(shares_jobs=True)
    site = make_throttled_site()
    queue = make_queue(ce=make_ce(site=site), **LARGE_SLOT)
    owner = make_user(groups=[group])
    for _ in range(2):
        make_job(group=group, owner=owner, cpu_time_s=500)
    advertise(site.pk, advertisement(0, ago_s=60))
    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            offer, pilot = OfferRequest(cpu_time_s=300_000), make_pilot(vo=group.vo, queue=queue)
            assert match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
            advertising = pool.submit(in_own_connection, partial(advertise, site.pk, advertisement(0, ago_s=30)))
            until_somebody_waits_for_a_lock(or_done=advertising)
        advertising.result(timeout=within(60))
    assert ThrottleState.objects.get().matched == 1


def in_own_connection(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    finally:
        connection.close()


def test_a_change_of_the_throttle_and_a_first_advertisement_at_once_agree() -> None:
    """Whichever comes first, the room is that of the new throttle."""
    for attempt in range(10):
        site = make_throttled_site(max_submitting_jobs=5)

        def change(site_id: int = site.pk) -> None:
            with transaction.atomic():
                row = Site.objects.get(pk=site_id)
                row.max_submitting_jobs = 50
                row.save()
                recompute(row)

        def tell(site_id: int = site.pk) -> None:
            advertise(site_id, advertisement(2))

        at_once([change, tell] if attempt % 2 else [tell, change])
        assert ThrottleState.objects.get(site=site).room == 48
