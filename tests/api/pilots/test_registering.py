"""Registration of a pilot with the token of its site: the answer, and all refusals."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.tokens import credential_of
from resources.domain.enums import PilotType, ResourceState
from resources.models import Queue
from tests.api.pilots.credentials import CONFIG, CREDENTIALS, REGISTER, bearer, post, register_token
from tests.factories import make_ce, make_pilot_token, make_queue, make_site, make_vo
from wms.accounts.models import VO


def registration(queue: Queue, vo: VO) -> dict[str, str]:
    return {"vo": vo.name, "site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}


@pytest.mark.django_db
def test_a_site_registers_a_generic_pilot_that_can_work_at_once(client: Client) -> None:
    queue, vo = make_queue(), make_vo()
    body = {**registration(queue, vo), "stamp": "slurm-17", "host_name": "wn1"}

    answer = post(client, REGISTER, body, token=register_token(queue.ce.site))

    assert answer.status_code == 201
    assert set(answer.json()) == {"pilot", "token", "expires_at"}
    assert answer["Cache-Control"] == "no-store"
    pilot = Pilot.objects.get()
    assert answer.json()["pilot"] == pilot.pk
    assert (pilot.vo, pilot.queue, pilot.group, pilot.owner) == (vo, queue, None, None)
    assert (pilot.status, pilot.stamp, pilot.host_name) == (PilotStatus.RUNNING, "slurm-17", "wn1")
    assert pilot.started_at == pilot.submitted_at
    assert credential_of(answer.json()["token"]).pilot_id == pilot.pk
    assert client.get(CONFIG, headers=bearer(answer.json()["token"])).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("credential", [*CREDENTIALS, "pilot"])
def test_no_other_token_registers_pilots(client: Client, credential: str) -> None:
    queue, vo = make_queue(), make_vo()
    if credential == "site that registers":
        token, status, before = register_token(make_site()), 403, 0  # of another site
    elif credential == "pilot":
        token, status, before = make_pilot_token(), 403, 1
    else:
        make, status = CREDENTIALS[credential]
        token = make()
        before = Pilot.objects.count()

    answer = post(client, REGISTER, registration(queue, vo), token=token)

    assert answer.status_code == status
    assert Pilot.objects.count() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value", "status", "code"),
    [
        ("site", "LCG.Elsewhere.org", 403, "not_your_site"),
        ("ce", "ce.of.another.site", 400, "unknown_place"),
        ("queue", "nosuch", 400, "unknown_place"),
        ("vo", "nosuch", 400, "unknown_vo"),
        ("vo", "unserved", 400, "unknown_vo"),
        ("vo", 5, 400, "invalid_input"),
        ("vo", None, 400, "invalid_input"),
        ("queue", "", 400, "invalid_input"),
        ("stamp", "x" * 129, 400, "invalid_input"),
        ("stamp", "a\0b", 400, "invalid_json"),
        ("quee", "x", 400, "invalid_input"),
    ],
)
def test_a_wrong_registration_is_refused_with_its_field(
    client: Client, field: str, value: object, status: int, code: str
) -> None:
    vo = make_vo()
    make_vo(name="unserved")
    make_site(name="LCG.Elsewhere.org")
    make_ce(name="ce.of.another.site")
    queue = make_queue(ce=make_ce(site=make_site(vos=[vo])))

    answer = post(client, REGISTER, {**registration(queue, vo), field: value}, token=register_token(queue.ce.site))

    assert answer.status_code == status, answer.content
    assert answer.json()["code"] == code
    assert code == "invalid_json" or answer.json()["errors"]
    assert not Pilot.objects.exists()


@pytest.mark.django_db
def test_a_site_token_discloses_no_other_vos(client: Client) -> None:
    vo = make_vo(name="lhcb")
    make_site(name="LCG.Secret.org", vos=[make_vo(name="atlas")])
    queue = make_queue(ce=make_ce(site=make_site(name="LCG.Secrets.org", vos=[vo])))
    token = register_token(queue.ce.site)

    answers = [
        post(client, REGISTER, {**registration(queue, vo), "vo": name}, token=token) for name in ("atlas", "atlus")
    ]

    assert [answer.json()["code"] for answer in answers] == ["unknown_vo"] * 2
    assert [answer.json()["detail"].replace("atlus", "atlas") for answer in answers] == [
        'There is no VO "atlas" here.'
    ] * 2
    answer = post(client, REGISTER, {**registration(queue, vo), "vo": "lhbc"}, token=token)
    assert 'Did you mean "lhcb"?' in answer.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("missing", ["vo", "site", "ce", "queue"])
def test_a_registration_without_its_place_is_refused(client: Client, missing: str) -> None:
    queue, vo = make_queue(), make_vo()
    body = registration(queue, vo)
    del body[missing]
    answer = post(client, REGISTER, body, token=register_token(queue.ce.site))
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [missing])
    assert not Pilot.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("level", ["site", "ce", "queue"])
@pytest.mark.parametrize(
    ("state", "over", "status"),
    [
        (ResourceState.BANNED, False, 409),
        (ResourceState.BANNED, True, 201),
        (ResourceState.DRAINING, False, 201),
    ],
)
def test_no_pilot_registers_at_a_banned_place(
    client: Client, level: str, state: ResourceState, over: bool, status: int
) -> None:
    queue, vo = make_queue(), make_vo()
    banned = {"site": queue.ce.site, "ce": queue.ce, "queue": queue}[level]
    banned.state, banned.state_reason = state, "cooling is broken"
    banned.state_until = datetime.now(tz=UTC) + timedelta(hours=-1 if over else 1)
    banned.save()

    answer = post(client, REGISTER, registration(queue, vo), token=register_token(queue.ce.site))

    assert answer.status_code == status
    assert Pilot.objects.exists() == (status == 201)
    if status == 409:
        assert answer.json()["code"] == "site_banned"
        assert "cooling is broken" in answer.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("accepted", "status"),
    [([], 201), ([PilotType.GENERIC], 201), ([PilotType.PRIVATE], 403), ([PilotType.GENERIC, PilotType.PRIVATE], 201)],
)
def test_a_ce_without_generic_pilots_gets_none(client: Client, accepted: list[PilotType], status: int) -> None:
    queue, vo = make_queue(ce=make_ce(pilot_types=accepted)), make_vo()
    answer = post(client, REGISTER, registration(queue, vo), token=register_token(queue.ce.site))
    assert answer.status_code == status
    assert Pilot.objects.exists() == (status == 201)
    if status == 403:
        assert answer.json()["code"] == "pilot_type_refused"
