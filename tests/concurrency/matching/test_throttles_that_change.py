"""A throttle that is reconfigured while a process still has the previous configuration in memory."""

from random import Random
from uuid import uuid4

import pytest
from django.db import transaction
from pytest_django import Settings

from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.throttles import advertise
from pilots.models import Pilot
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_numbers
from resources.models import Queue, Site
from resources.services.throttles import recompute
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue, make_user
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db(transaction=True)

IDLE = of_numbers({SUBMITTING: 0, GATHERING: 0, CURRENT: 0})


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def pilot(group: Group, settings: Settings) -> Pilot:
    settings.WMS_TASK_QUEUE_INDEX_MAX_AGE_S = 60
    owner = make_user(groups=[group])
    for _ in range(10):
        make_job(group=group, owner=owner)
    return make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT))


def taken(pilot: Pilot) -> int:
    return len(
        match(OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    )


def configure(queue: Queue, **fields: object) -> None:
    with transaction.atomic():
        site = Site.objects.get(pk=queue.ce.site_id)
        for name, value in fields.items():
            setattr(site, name, value)
        site.save()
        recompute(site)


@pytest.mark.parametrize("before", ["", "level0", "custom"])
@pytest.mark.parametrize(
    ("after", "expression", "given"),
    [("", "", 1), ("level0", "", 0), ("custom", "CurMatches < 0", 0), ("custom", "CurMatches < 5", 1)],
)
def test_a_throttle_holds_from_the_moment_in_which_it_is_configured(
    pilot: Pilot, before: str, after: str, expression: str, given: int
) -> None:
    assert pilot.queue is not None
    configure(pilot.queue, throttle_policy=before, max_submitting_jobs=5, throttle_requirements="CurMatches < 4")
    advertise(pilot.queue.ce.site_id, IDLE)
    assert taken(pilot) == 1
    configure(pilot.queue, throttle_policy=after, max_submitting_jobs=0, throttle_requirements=expression)
    if not before:
        advertise(pilot.queue.ce.site_id, IDLE)
    assert taken(pilot) == given
