"""A stolen registration token of a site: what it can register, and for how long."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test import Client
from pytest_django import Settings

from pilots.models import Pilot
from pilots.services.registration import QueueFullError, Registration, register
from resources.domain.enums import SiteTokenPurpose
from resources.models import Queue, SiteToken
from resources.queries import visible_sites
from resources.services.site_tokens import issue_site_token, set_site_token
from tests.api.pilots.credentials import REGISTER, post, register_token
from tests.factories import make_queue, make_vo
from wms.accounts.models import VO


def body_for(queue: Queue, vo: str) -> dict[str, str]:
    return {"vo": vo, "site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}


@pytest.mark.django_db
def test_a_stolen_token_registers_no_pilot_at_a_closed_queue(client: Client) -> None:
    queue, vo = make_queue(max_pilots=0), make_vo()
    token = register_token(queue.ce.site)

    answers = [post(client, REGISTER, body_for(queue, vo.name), token=token) for _ in range(100)]

    assert {answer.status_code for answer in answers} == {409}
    refused = answers[0].json()
    assert refused["code"] == "queue_full"
    assert "max_pilots" in refused["detail"]
    assert not Pilot.objects.exists()
    assert SiteToken.objects.get().registrations == 0


@pytest.mark.django_db
def test_pilots_that_register_and_leave_at_once_are_bounded(client: Client) -> None:
    queue, vo = make_queue(max_pilots=1), make_vo()
    token = register_token(queue.ce.site)
    statuses = []
    for _ in range(62):
        statuses.append(post(client, REGISTER, body_for(queue, vo.name), token=token).status_code)
        Pilot.objects.filter(ended_at=None).update(status="Done", ended_at=datetime.now(tz=UTC))
    assert statuses == [201] * 60 + [409] * 2
    Pilot.objects.update(submitted_at=datetime.now(tz=UTC) - timedelta(minutes=2))
    assert post(client, REGISTER, body_for(queue, vo.name), token=token).status_code == 201


@pytest.mark.django_db
def test_an_ended_pilot_frees_a_registration_and_registrations_are_counted(client: Client) -> None:
    queue, vo = make_queue(max_pilots=2), make_vo()
    token = register_token(queue.ce.site)

    def codes() -> list[int]:
        return [post(client, REGISTER, body_for(queue, vo.name), token=token).status_code for _ in range(3)]

    assert codes() == [201, 201, 409]
    last = Pilot.objects.order_by("pk").last()
    assert last is not None
    last.status, last.ended_at = "Done", datetime.now(tz=UTC)
    last.save()
    assert codes() == [201, 409, 409]
    counted = SiteToken.objects.get()
    assert counted.registrations == 3
    assert counted.registered_at is not None


@pytest.mark.django_db
def test_a_token_is_for_the_vos_that_its_site_served_when_it_was_made(client: Client) -> None:
    queue, first, second = make_queue(), make_vo(), make_vo()
    site = queue.ce.site
    site.vos.set([first])
    token, of_configuration = register_token(site), "text-of-the-configuration-file"
    with transaction.atomic():
        set_site_token(site, purpose=SiteTokenPurpose.REGISTER, plain=of_configuration, now=datetime.now(tz=UTC))
    advertise = issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=datetime.now(tz=UTC))

    def registers(vo: VO, token: str) -> int:
        return post(client, REGISTER, body_for(queue, vo.name), token=token).status_code

    site.vos.set([first, second])
    assert [registers(first, each) for each in (token, of_configuration)] == [201, 201]
    assert [registers(second, each) for each in (token, of_configuration)] == [400, 400]
    assert registers(second, register_token(site)) == 201
    site.vos.set([second])
    assert [registers(vo, each) for vo in (first, second) for each in (token, of_configuration)] == [401] * 4
    assert visible_sites.site_token(advertise) is None
    site.vos.clear()  # which serves all now
    assert [registers(vo, token) for vo in (first, second)] == [201, 400]


@pytest.mark.django_db(transaction=True)
def test_simultaneous_registrations_do_not_exceed_the_limit() -> None:
    queue, vo = make_queue(max_pilots=3), make_vo()
    issue_site_token(queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(tz=UTC))
    token_id = SiteToken.objects.get().pk
    wanted = Registration(**body_for(queue, vo.name))

    def attempt(_: int) -> bool:
        try:
            register(wanted, site_id=queue.ce.site_id, token_id=token_id, now=datetime.now(tz=UTC))
        except QueueFullError:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(8) as pool:
        registered = list(pool.map(attempt, range(16)))

    assert sum(registered) == Pilot.objects.count() == 3
    assert SiteToken.objects.get().registrations == 3


@pytest.mark.django_db
def test_an_expired_registration_token_is_refused(client: Client, settings: Settings) -> None:
    queue, vo = make_queue(), make_vo()
    settings.WMS_REGISTRATION_TOKEN_S = 3600
    an_hour_ago = datetime.now(tz=UTC) - timedelta(hours=1, seconds=1)
    old = issue_site_token(queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=an_hour_ago)
    new = register_token(queue.ce.site)

    assert post(client, REGISTER, body_for(queue, vo.name), token=old).status_code == 401
    assert post(client, REGISTER, body_for(queue, vo.name), token=new).status_code == 201
