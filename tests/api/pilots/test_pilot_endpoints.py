"""Registering, configuration and reports of pilots: every endpoint by every kind of token, and bad input."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jwt
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from pilots.agent.configuration import parse
from pilots.domain import PilotStatus, WatchdogMargins
from pilots.models import Pilot
from pilots.services.tokens import credential_of
from resources.domain.words import Identity, PilotType, ResourceState, SiteTokenPurpose
from resources.models import Queue, Site
from resources.services import issue_site_token
from tests.factories import (
    NOW,
    make_ce,
    make_group,
    make_pilot,
    make_pilot_token,
    make_queue,
    make_site,
    make_token,
    make_user,
    make_vo,
)
from wms.accounts.models import VO
from wms.kernel.tokens import PREFIXES, TokenKind, sign

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

REGISTER, CONFIG, REPORT = "/api/pilots/register/", "/api/pilots/config/", "/api/pilots/report/"
LATER = datetime.now(tz=UTC) + timedelta(hours=1)
CHECK = {"name": "disk", "ok": True, "detail": "40 GB free"}
FIT = {"host_name": "wn1.cern.ch", "batch_id": "4711", "ok": True, "checks": [CHECK], "node": {"cores": 8}}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def post(client: Client, url: str, body: object, *, token: str) -> "Answer":
    return client.post(url, body, content_type="application/json", headers=bearer(token))


def register_token(site: Site) -> str:
    return issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=NOW)


def registration(queue: Queue, vo: VO) -> dict[str, str]:
    return {"vo": vo.name, "site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}


def forged(key: str = "k" * 48, *, algorithm: str = "HS256", kind: str = "pilot", pilot: object = 1) -> str:
    claims = {"pilot": pilot, "kind": kind, "exp": int(LATER.timestamp())}
    return PREFIXES[TokenKind.PILOT] + jwt.encode(claims, key, algorithm=algorithm)


def disguised_job_token() -> str:
    token = sign(TokenKind.JOB, {"pilot": make_pilot().pk}, expires_at=LATER)
    return PREFIXES[TokenKind.PILOT] + token.removeprefix(PREFIXES[TokenKind.JOB])


#: What each kind of credential is answered by the addresses of pilots; each makes a token that is valid, or is not.
CREDENTIALS: Mapping[str, tuple[Callable[[], str], int]] = {
    "user": (lambda: make_token(make_user()), 403),
    "operator": (lambda: make_token(make_user(operator=True)), 403),
    "site that registers": (lambda: register_token(make_site()), 403),
    "site that advertises": (
        lambda: issue_site_token(make_site(), purpose=SiteTokenPurpose.ADVERTISE, now=NOW),
        403,
    ),
    "revoked pilot": (lambda: make_pilot_token(_revoked()), 403),
    "pilot that is gone": (lambda: sign(TokenKind.PILOT, {"pilot": 10**15}, expires_at=LATER), 403),
    "expired pilot": (lambda: make_pilot_token(lifetime=timedelta(seconds=-1)), 401),
    "pilot by another key": (forged, 401),
    "pilot by no key": (lambda: forged("", algorithm="none"), 401),
    "pilot by a word": (lambda: sign(TokenKind.PILOT, {"pilot": "me"}, expires_at=LATER), 401),
    "job in disguise": (disguised_job_token, 401),
    "nothing signed": (lambda: "wmsp_x", 401),
}


def _revoked() -> Pilot:
    pilot = make_pilot()
    Pilot.objects.update(revoked_at=NOW)
    return pilot


@pytest.mark.django_db
@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("url", [CONFIG, REPORT])
def test_only_a_living_pilot_opens_its_addresses(client: Client, url: str, credential: str) -> None:
    make, status = CREDENTIALS[credential]
    token = make()
    before = list(Pilot.objects.order_by("pk").values())

    answer = client.get(url, headers=bearer(token)) if url == CONFIG else post(client, url, FIT, token=token)

    assert answer.status_code == status
    assert answer.json()["code"]
    assert answer.json()["detail"]
    assert list(Pilot.objects.order_by("pk").values()) == before


@pytest.mark.django_db
@pytest.mark.parametrize("url", [CONFIG, REPORT, REGISTER])
def test_nobody_is_asked_for_a_token(client: Client, url: str) -> None:
    answer = client.get(url) if url == CONFIG else client.post(url, FIT, content_type="application/json")
    assert answer.status_code == 401
    assert "Bearer" in answer["WWW-Authenticate"]


@pytest.mark.django_db
def test_a_pilot_opens_no_address_of_users(client: Client) -> None:
    for url in ("/api/jobs/", "/api/auth/me/", "/api/sites/"):
        assert client.get(url, headers=bearer(make_pilot_token())).status_code == 403


# ---- registering -----------------------------------------------------------------------------------------------------


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
def test_the_token_of_a_site_learns_no_names_of_vos_that_it_does_not_serve(client: Client) -> None:
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
def test_a_ce_that_accepts_no_generic_pilots_gets_none(client: Client, accepted: list[PilotType], status: int) -> None:
    queue, vo = make_queue(ce=make_ce(pilot_types=accepted)), make_vo()
    answer = post(client, REGISTER, registration(queue, vo), token=register_token(queue.ce.site))
    assert answer.status_code == status
    assert Pilot.objects.exists() == (status == 201)
    if status == 403:
        assert answer.json()["code"] == "pilot_type_refused"


# ---- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_configuration_tells_everything_about_the_place(
    client: Client, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.WMS_HEARTBEAT_S, settings.WMS_LEASE_GRACE_S = 7, 3
    settings.WMS_STREAM_MAX_MB = 77
    queue = make_queue(
        ce=make_ce(identity=Identity.SUDO, options={"directory": "d", "payload_users": ["wms01", "wms02"]}),
        platforms=["x86_64-el9"],
        processors=8,
        memory_mb=16000,
        wall_time_s=86400,
        gpus=2,
        disk_mb=50_000,
        container=True,
        job_types=["User"],
        tags=["GPU"],
        required_tags=["GPU"],
    )
    pilot = make_pilot(queue=queue, vo=make_vo(setup="Production", setups=["Devel"]))
    token = make_pilot_token(pilot)

    with django_assert_num_queries(2):  # the pilot with its place, the database's clock
        answer = client.get(CONFIG, headers=bearer(token))

    told = answer.json()
    assert told["place"] == {
        "site": queue.ce.site.name,
        "ce": queue.ce.name,
        "queue": queue.name,
        "identity": "sudo",
        "payload_users": ["wms01", "wms02"],
        "cpu_time_s": 300_000,
        "platforms": ["x86_64-el9"],
        "processors": 8,
        "memory_mb": 16000,
        "wall_time_s": 86400,
        "gpus": 2,
        "disk_mb": 50_000,
        "container": True,
        "job_types": ["User"],
        "tags": ["GPU"],
        "required_tags": ["GPU"],
    }
    assert (told["protocol"], told["pilot"], told["type"]) == (1, pilot.pk, "generic")
    assert (told["vo"], told["setup"], told["setups"]) == (pilot.vo.name, "Production", ["Devel", "Production"])
    assert (told["group"], told["owner"]) == (None, None)
    assert (told["heartbeat_s"], told["lease_grace_s"]) == (7, 3)
    assert (told["lease_first_s"], told["lease_s"]) == (settings.WMS_LEASE_FIRST_S, settings.WMS_LEASE_S)
    assert told["match_retry_after_s"] == settings.WMS_MATCH_RETRY_AFTER_S
    assert told["sandbox_max_bytes"] == settings.WMS_SANDBOX_MAX_BYTES
    assert told["sandbox_max_unpacked_bytes"] == settings.WMS_SANDBOX_MAX_UNPACKED_BYTES
    assert told["watchdog"] == asdict(WatchdogMargins(stream_max_mb=77))
    # What is sent arrives: the agent knows each of the margins by the same name.
    margins = parse({**told, "watchdog": {**told["watchdog"], "stalled_s": 9}}, asked_at=0.0).watchdog
    assert asdict(margins) | {"period_s": 10} == asdict(WatchdogMargins(stream_max_mb=77, stalled_s=9))
    assert datetime.fromisoformat(told["server_time"]).tzinfo is not None


@pytest.mark.django_db
def test_a_private_pilot_made_by_hand_has_an_owner_and_no_place(client: Client) -> None:
    group = make_group()
    alice = make_user(groups=[group])
    pilot = make_pilot(group=group, owner=alice)
    told = client.get(CONFIG, headers=bearer(make_pilot_token(pilot))).json()
    assert (told["type"], told["group"], told["owner"]) == ("private", group.name, alice.username)
    assert told["place"] is None


@pytest.mark.django_db
def test_an_ended_pilot_gets_no_configuration(client: Client) -> None:
    answer = client.get(CONFIG, headers=bearer(make_pilot_token(make_pilot(status=PilotStatus.LOST))))
    assert (answer.status_code, answer.json()["code"]) == (403, "pilot_ended")


# ---- reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_fit_node_is_kept_and_the_pilot_goes_on(client: Client) -> None:
    pilot = make_pilot()
    answer = post(client, REPORT, FIT, token=make_pilot_token(pilot))

    assert (answer.status_code, answer.json()) == (200, {"pilot": pilot.pk, "status": "Running", "token": None})
    pilot.refresh_from_db()
    assert (pilot.status, pilot.ended_at, pilot.host_name) == (PilotStatus.RUNNING, None, "wn1.cern.ch")
    assert pilot.node == {"cores": 8, "ok": True, "batch_id": "4711", "checks": [CHECK]}
    assert pilot.last_seen_at is not None


@pytest.mark.django_db
def test_an_unfit_node_ends_the_pilot_with_the_reason(client: Client) -> None:
    pilot = make_pilot()
    checks = [CHECK, {"name": "cvmfs", "ok": False, "detail": "not mounted"}, {"name": "python", "ok": False}]

    answer = post(client, REPORT, {**FIT, "ok": False, "checks": checks}, token=make_pilot_token(pilot))

    assert answer.json()["status"] == "Failed"
    pilot.refresh_from_db()
    assert pilot.status == PilotStatus.FAILED
    assert pilot.status_reason == "The node is not fit: cvmfs: not mounted; python"
    assert pilot.ended_at is not None
    assert len(pilot.node["checks"]) == 3


@pytest.mark.django_db
def test_what_jobs_met_on_a_node_is_kept_and_the_pilot_goes_on(client: Client) -> None:
    pilot = make_pilot()
    token = make_pilot_token(pilot)
    post(client, REPORT, FIT, token=token)

    for number in range(25):
        flaw = {"name": "software", "detail": f"Software is missing on the node: /cvmfs/{number}"}
        answer = post(client, REPORT, {"flaw": flaw}, token=token)
        assert (answer.status_code, answer.json()["status"]) == (200, "Running")
    post(client, REPORT, FIT, token=token)  # it looks again

    pilot.refresh_from_db()
    assert pilot.ended_at is None
    assert pilot.node["cores"] == 8
    assert [flaw["detail"].rpartition("/")[2] for flaw in pilot.node["flaws"]] == [str(n) for n in range(5, 25)]


@pytest.mark.django_db
def test_a_pilot_that_leaves_is_done_and_may_say_so_twice(client: Client) -> None:
    pilot = make_pilot()
    token = make_pilot_token(pilot)

    first = post(client, REPORT, {"leaving": "nothing to do"}, token=token)
    pilot.refresh_from_db()
    ended_at = pilot.ended_at
    second = post(client, REPORT, {"leaving": "again"}, token=token)

    assert first.json() == second.json() == {"pilot": pilot.pk, "status": "Done", "token": None}
    pilot.refresh_from_db()
    assert (pilot.status, pilot.status_reason, pilot.ended_at) == (PilotStatus.DONE, "nothing to do", ended_at)


@pytest.mark.django_db
def test_a_pilot_that_could_not_work_has_failed_with_its_reason(client: Client) -> None:
    pilot = make_pilot()
    sentence = "the server speaks protocol 2, this agent 1; a newer agent is needed"

    answer = post(client, REPORT, {"leaving": sentence, "failed": True}, token=make_pilot_token(pilot))

    assert answer.json() == {"pilot": pilot.pk, "status": "Failed", "token": None}
    pilot.refresh_from_db()
    assert (pilot.status, pilot.status_reason) == (PilotStatus.FAILED, sentence)


@pytest.mark.django_db
def test_an_ended_pilot_that_reports_is_told_to_leave(client: Client) -> None:
    pilot = make_pilot(status=PilotStatus.FAILED)
    answer = post(client, REPORT, FIT, token=make_pilot_token(pilot))
    assert (answer.status_code, answer.json()["code"]) == (403, "pilot_ended")
    assert Pilot.objects.get().node == {}


@pytest.mark.django_db
@pytest.mark.parametrize(("minutes_left", "renewed"), [(31, False), (29, True)])
def test_a_report_renews_a_token_in_the_second_half_of_its_life(
    client: Client, settings: Settings, minutes_left: int, renewed: bool
) -> None:
    settings.WMS_PILOT_TOKEN_S = 3600
    pilot = make_pilot()
    answer = post(client, REPORT, FIT, token=make_pilot_token(pilot, lifetime=timedelta(minutes=minutes_left)))
    token = answer.json()["token"]
    assert (token is not None) == renewed
    if renewed:
        assert credential_of(token).pilot_id == pilot.pk
        assert credential_of(token).expires_at > datetime.now(tz=UTC) + timedelta(minutes=59)


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in FIT.items() if key != name}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ok"),
        (without("ok"), "ok"),
        (without("host_name"), "host_name"),
        ({**FIT, "leaving": "x"}, "leaving"),
        ({"leaving": ""}, "leaving"),
        ({"leaving": "x" * 256}, "leaving"),
        ({"leaving": 5}, "leaving"),
        ({"leaving": "x", "failed": "yes"}, "failed"),
        ({**FIT, "failed": True}, "failed"),
        ({**FIT, "flaw": {"name": "software"}}, "flaw"),
        ({"flaw": {}}, "flaw.name"),
        ({"flaw": {"name": "software", "ok": False}}, "flaw.ok"),
        ({**FIT, "ok": "yes"}, "ok"),
        ({**FIT, "host_name": "h" * 256}, "host_name"),
        ({**FIT, "hostname": "h"}, "hostname"),
        ({**FIT, "checks": {}}, "checks"),
        ({**FIT, "checks": [CHECK] * 101}, "checks"),
        ({**FIT, "checks": [{**CHECK, "ok": None}]}, "checks.0.ok"),
        ({**FIT, "checks": [{**CHECK, "detail": "d" * 1001}]}, "checks.0.detail"),
        ({**FIT, "checks": [{**CHECK, "more": 1}]}, "checks.0.more"),
        ({**FIT, "checks": ["disk"]}, "checks.0"),
        ({**FIT, "node": []}, "node"),
        ({**FIT, "node": {"x": "y" * 20_000}}, "node"),
        ([], "body"),
        ("leaving", "body"),
    ],
)
def test_a_bad_report_is_refused_with_its_field_and_changes_nothing(client: Client, body: object, field: str) -> None:
    make_pilot()
    before = Pilot.objects.values().get()

    answer = post(client, REPORT, json.dumps(body), token=make_pilot_token(Pilot.objects.get()))

    assert answer.status_code == 400, answer.content
    assert field in answer.json()["errors"]
    assert Pilot.objects.values().get() == before
