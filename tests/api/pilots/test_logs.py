"""Pilots upload their logs; only permitted users read them."""

import pytest
from django.test import Client

from pilots.domain.logs import LogPart
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot, PilotLog, PilotLogPart
from pilots.services import logs
from tests.api.pilots.credentials import CREDENTIALS, bearer, post
from tests.factories import NOW, make_group, make_pilot, make_pilot_token, make_token, make_user, make_vo
from wms.accounts.models import User
from wms.wire.protocol import MAX_LOG_CHUNK

pytestmark = pytest.mark.django_db

LOG = "/api/v1/pilots/log/"
CHUNK = {"offset": 0, "text": "2026-06-01T12:00:00Z pilot.started\n"}


def address(pilot: Pilot) -> str:
    return f"/api/v1/pilots/{pilot.pk}/log/"


# ---- sending ---------------------------------------------------------------------------------------------------------


def test_log_chunks_are_acknowledged_with_the_next_position(client: Client) -> None:
    pilot = make_pilot()
    token = make_pilot_token(pilot)
    received = len(CHUNK["text"])  # type: ignore[arg-type]
    for _ in range(2):
        answer = post(client, LOG, CHUNK, token=token)
        assert (answer.status_code, answer.json()) == (200, {"received": received})
    answer = post(client, LOG, {"offset": received, "text": " blanks stay \n"}, token=token)
    assert answer.json() == {"received": received + 14}
    seen = client.get(address(pilot), headers=bearer(make_token(make_user(operator=True)))).json()
    assert seen["text"] == f"{CHUNK['text']} blanks stay \n"
    assert (seen["pilot"], seen["received"], seen["batch_output"]) == (pilot.pk, received + 14, "")
    assert seen["changed_at"]


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_only_a_pilot_that_was_not_revoked_sends(client: Client, credential: str) -> None:
    make, status = CREDENTIALS[credential]
    answer = post(client, LOG, CHUNK, token=make())
    assert answer.status_code == status
    assert answer.json()["code"]
    assert not PilotLog.objects.exists()
    assert not PilotLogPart.objects.exists()


def test_an_anonymous_request_is_401(client: Client) -> None:
    assert client.post(LOG, CHUNK, content_type="application/json").status_code == 401


def test_an_ended_pilot_may_still_send_its_log(client: Client) -> None:
    pilot = make_pilot(status=PilotStatus.FAILED)
    assert post(client, LOG, CHUNK, token=make_pilot_token(pilot)).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"offset": 0}, "text"),
        ({"text": "x"}, "offset"),
        ({"offset": -1, "text": "x"}, "offset"),
        ({"offset": 10**12 + 1, "text": "x"}, "offset"),
        ({"offset": True, "text": "x"}, "offset"),
        ({"offset": "0", "text": "x"}, "offset"),
        ({"offset": 0.5, "text": "x"}, "offset"),
        ({"offset": 0, "text": "x" * (MAX_LOG_CHUNK + 1)}, "text"),
        ({"offset": 0, "text": None}, "text"),
        ({"offset": 0, "text": 5}, "text"),
        ({"offset": 0, "text": "a\0b"}, "text"),
        ({"ofset": 0, "text": "x"}, "ofset"),
        ([], "body"),
    ],
)
def test_an_invalid_chunk_is_refused_and_not_stored(client: Client, body: object, field: str) -> None:
    answer = post(client, LOG, body, token=make_pilot_token())
    assert answer.status_code == 400
    assert field in answer.json()["errors"]
    assert not PilotLogPart.objects.exists()


def test_the_largest_chunk_is_accepted(client: Client) -> None:
    text = "\N{SNOWMAN}" * MAX_LOG_CHUNK
    assert post(client, LOG, {"offset": 0, "text": text}, token=make_pilot_token()).status_code == 200


# ---- reading ---------------------------------------------------------------------------------------------------------


def people(*, shares_jobs: bool) -> tuple[Pilot, Pilot, dict[str, User]]:
    """Return a generic and a private pilot of a VO, and users with and without rights on them."""
    vo = make_vo()
    group = make_group(vo=vo, shares_jobs=shares_jobs)
    owner = make_user(groups=[group])
    who = {
        "owner": owner,
        "mate": make_user(groups=[group]),
        "member of another group": make_user(groups=[make_group(vo=vo, shares_jobs=True)]),
        "manager": make_user(manages=[vo]),
        "manager of another": make_user(manages=[make_vo()]),
        "operator": make_user(operator=True),
    }
    private = make_pilot(group=group, owner=None if shares_jobs else owner)
    return make_pilot(vo=vo), private, who


@pytest.mark.parametrize("shares_jobs", [False, True])
@pytest.mark.parametrize(
    ("name", "generic", "private", "shared"),
    [
        ("owner", 404, 200, 200),
        ("mate", 404, 404, 200),
        ("member of another group", 404, 404, 404),
        ("manager", 200, 200, 200),
        ("manager of another", 404, 404, 404),
        ("operator", 200, 200, 200),
    ],
)
def test_access_rights_to_the_log_of_a_pilot(
    client: Client, name: str, generic: int, private: int, shared: int, *, shares_jobs: bool
) -> None:
    of_many, of_one, who = people(shares_jobs=shares_jobs)
    headers = bearer(make_token(who[name]))
    assert client.get(address(of_many), headers=headers).status_code == generic
    assert client.get(address(of_one), headers=headers).status_code == (shared if shares_jobs else private)


def test_pilots_read_no_logs_and_anonymous_requests_are_401(client: Client) -> None:
    pilot = make_pilot()
    assert client.get(address(pilot), headers=bearer(make_pilot_token(pilot))).status_code == 403
    assert client.get(address(pilot)).status_code == 401


def test_a_pilot_that_does_not_exist_has_no_log(client: Client) -> None:
    headers = bearer(make_token(make_user(operator=True)))
    for key in (0, 10**15, 10**30):
        assert client.get(f"/api/v1/pilots/{key}/log/", headers=headers).status_code == 404


def test_batch_system_output_is_readable(client: Client) -> None:
    pilot = make_pilot()
    logs.append(LogPart(offset=0, text="one\n"), pilot_id=pilot.pk, now=NOW)
    logs.keep_output("two\n", pilot_id=pilot.pk, now=NOW)
    answer = client.get(address(pilot), headers=bearer(make_token(make_user(operator=True)))).json()
    assert (answer["text"], answer["batch_output"]) == ("one\n", "two\n")


def test_lines_of_a_log_are_found_by_those_who_may_read_it(client: Client) -> None:
    pilot = make_pilot()
    logs.append(LogPart(offset=0, text="one\ntwo\n"), pilot_id=pilot.pk, now=NOW)
    operator = bearer(make_token(make_user(operator=True)))
    seen = client.get(address(pilot), {"contains": "TWO"}, headers=operator).json()
    assert (seen["text"], seen["found"]["matches"]) == ("", 1)
    assert {"number": 2, "text": "two", "is_match": True} in seen["found"]["lines"]
    assert "found" not in client.get(address(pilot), headers=operator).json()
    assert client.get(address(pilot), {"contains": ""}, headers=operator).status_code == 400
    assert client.get(address(pilot), {"contains": "x" * 201}, headers=operator).status_code == 400
    other = bearer(make_token(make_user()))
    assert client.get(address(pilot), {"contains": "two"}, headers=other).status_code == 404


def test_lines_are_found_in_what_a_batch_system_kept(client: Client) -> None:
    pilot = make_pilot()
    logs.keep_output("slurmstepd: error\n", pilot_id=pilot.pk, now=NOW)
    operator = bearer(make_token(make_user(operator=True)))
    assert client.get(address(pilot), {"contains": "error"}, headers=operator).json()["found"]["matches"] == 1
