"""Single-use secrets of directors: their rights, and their single use (docs/architecture.md, Pilots and directors)."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import transaction
from django.test import Client

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot, PilotSecret
from pilots.services.secrets import issue_secrets, secret_of
from pilots.services.tokens import credential_of
from resources.domain.enums import PilotType, ResourceState
from resources.models import Site
from tests.factories import NOW, make_ce, make_group, make_queue, make_user, make_vo

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

pytestmark = pytest.mark.django_db
REGISTER = "/api/v1/pilots/register/"


def make_sent(*, private: bool = False, status: PilotStatus = PilotStatus.WAITING) -> tuple[Pilot, str]:
    """Return a pilot that a director has just sent, and its secret."""
    now = datetime.now(tz=UTC)
    vo = make_vo()
    group = make_group(vo=vo) if private else None
    pilot = Pilot.objects.create(
        vo=vo,
        queue=make_queue(ce=make_ce(pilot_types=[PilotType.PRIVATE] if private else [])),
        group=group,
        owner=make_user(groups=[group]) if group else None,
        stamp="director-1",
        batch_id="4711",
        status=status,
        submitted_at=now,
    )
    with transaction.atomic():
        issue_secrets([pilot], now=now)
    return pilot, secret_of(pilot)


def place_of(pilot: Pilot) -> dict[str, str]:
    assert pilot.queue is not None
    return {
        "vo": pilot.vo.name,
        "site": pilot.queue.ce.site.name,
        "ce": pilot.queue.ce.name,
        "queue": pilot.queue.name,
        "stamp": "told-by-the-pilot",
        "host_name": "wn1",
    }


def register(client: Client, body: object, *, secret: str) -> "Answer":
    headers = {"Authorization": f"Bearer {secret}"}
    return client.post(REGISTER, body, content_type="application/json", headers=headers)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("status", [PilotStatus.SUBMITTED, PilotStatus.WAITING, PilotStatus.STALLED])
def test_a_registration_secret_is_valid_once(client: Client, private: bool, status: PilotStatus) -> None:
    pilot, secret = make_sent(private=private, status=status)

    answer = register(client, place_of(pilot), secret=secret)

    assert answer.status_code == 201
    assert answer.json()["pilot"] == pilot.pk
    assert credential_of(answer.json()["token"]).pilot_id == pilot.pk
    group, owner = pilot.group, pilot.owner
    pilot.refresh_from_db()
    assert (pilot.status, pilot.stamp, pilot.batch_id, pilot.host_name) == (
        PilotStatus.RUNNING, "director-1", "4711", "wn1",
    )  # fmt: skip
    assert pilot.started_at == pilot.last_seen_at is not None
    assert (pilot.group, pilot.owner) == (group, owner)
    assert PilotSecret.objects.get().used_at is not None

    before = Pilot.objects.values().get()
    again = register(client, place_of(pilot), secret=secret)
    assert (again.status_code, again.json()["code"]) == (409, "secret_used")
    assert Pilot.objects.values().get() == before


def test_only_the_digest_of_a_secret_is_stored() -> None:
    _, secret = make_sent()
    assert secret.startswith("wmsr_")
    assert len(secret) >= 40
    assert secret not in str(list(PilotSecret.objects.values()))


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"vo": "another"}, 403, "not_your_place"),
        ({"site": "another"}, 403, "not_your_place"),
        ({"ce": "another"}, 403, "not_your_place"),
        ({"queue": "another"}, 403, "not_your_place"),
        ({"queue": 5}, 400, "invalid_input"),
        ({"quee": "x"}, 400, "invalid_input"),
    ],
)
def test_a_secret_of_another_place_is_refused_and_stays_valid(
    client: Client, change: dict[str, object], status: int, code: str
) -> None:
    pilot, secret = make_sent()
    before = Pilot.objects.values().get()

    answer = register(client, {**place_of(pilot), **change}, secret=secret)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert list(answer.json()["errors"]) == list(change)
    assert Pilot.objects.values().get() == before
    assert register(client, place_of(pilot), secret=secret).status_code == 201


def test_a_secret_used_at_a_banned_site_stays_valid(client: Client) -> None:
    pilot, secret = make_sent()
    Site.objects.update(state=ResourceState.BANNED)
    assert register(client, place_of(pilot), secret=secret).json()["code"] == "site_banned"
    Site.objects.update(state=ResourceState.ACTIVE)
    assert register(client, place_of(pilot), secret=secret).status_code == 201


def test_an_expired_secret_is_refused(client: Client) -> None:
    pilot, secret = make_sent()
    PilotSecret.objects.update(expires_at=datetime.now(tz=UTC) - timedelta(seconds=1))
    answer = register(client, place_of(pilot), secret=secret)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert PilotSecret.objects.get().used_at is None


@pytest.mark.parametrize("secret", ["wmsr_", "wmsr_unknown"])
def test_an_unknown_secret_is_refused(client: Client, secret: str) -> None:
    pilot, _ = make_sent()
    assert register(client, place_of(pilot), secret=secret).status_code == 401


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"status": PilotStatus.ABORTED, "ended_at": NOW}, "pilot_ended"),
        ({"revoked_at": NOW}, "pilot_revoked"),
    ],
)
def test_a_pilot_that_already_ended_cannot_register(client: Client, columns: dict[str, object], code: str) -> None:
    pilot, secret = make_sent()
    Pilot.objects.update(**columns)
    before = Pilot.objects.values().get()
    answer = register(client, place_of(pilot), secret=secret)
    assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert Pilot.objects.values().get() == before


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("get", "/api/v1/pilots/config/"),
        ("post", "/api/v1/pilots/report/"),
        ("post", "/api/v1/matches/"),
        ("post", "/api/v1/matches/preview/"),
        ("get", "/api/v1/submit-pools/"),
        ("get", "/api/v1/jobs/"),
        ("post", "/api/v1/jobs/"),
        ("get", "/api/v1/auth/me/"),
        ("get", "/api/v1/sites/"),
    ],
)
def test_a_registration_secret_is_refused_elsewhere(client: Client, method: str, url: str) -> None:
    _, secret = make_sent()
    headers = {"Authorization": f"Bearer {secret}"}
    answer = getattr(client, method)(url, content_type="application/json", headers=headers)
    assert answer.status_code == 403
