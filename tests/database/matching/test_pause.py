"""A pause of matching for a VO: its jobs wait until an end that is given, and running jobs go on."""

from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest

from matching.models import Match
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from tests.clock import pass_time
from tests.factories import make_group, make_job, make_pilot, make_queue
from wms.accounts.models import VO
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db


def leased_to(pilot: Pilot) -> int:
    offer = OfferRequest(cpu_time_s=300_000)
    return len(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)))


def pause(vo: VO) -> None:
    VO.objects.filter(pk=vo.pk).update(paused_until=database_now() + timedelta(minutes=30), pause_reason="Cooling.")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("is_known", [True, False], ids=["known queue", "unknown queue"])
def test_jobs_of_a_paused_vo_wait_until_its_end(is_known: bool) -> None:
    group, other, queue = make_group(), make_group(), make_queue()
    for each in (group, group, other):
        make_job(group=each)
    place = queue if is_known else None
    running, pilot, its_other = (make_pilot(vo=vo, queue=place) for vo in (group.vo, group.vo, other.vo))
    assert leased_to(running) == 1

    pause(group.vo)
    assert leased_to(pilot) == 0
    assert leased_to(its_other) == 1
    assert [lease.ended_at for lease in Match.objects.all()] == [None, None]

    pass_time(minutes=31)
    assert leased_to(pilot) == 1
