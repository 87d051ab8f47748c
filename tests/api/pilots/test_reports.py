"""Reports of a pilot on its node and on its end, and all refusals."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.tokens import credential_of
from resources.models import ReportedPlatform, Site
from tests.api.pilots.credentials import CHECK, FIT, REPORT, post
from tests.factories import make_pilot, make_pilot_token, make_platform, make_queue


@pytest.mark.django_db
def test_the_report_of_a_fit_node_is_stored_and_the_pilot_continues(client: Client) -> None:
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
@pytest.mark.parametrize(
    ("configured", "told", "provides", "contradicts"),
    [
        (["el9"], {"platform": "deb12"}, False, True),
        (["el9"], {"platform": "el9"}, False, False),
        (["el8"], {"platform": "el9"}, False, False),  # runs it
        (["el9"], {"platform": "el8"}, False, True),
        ([], {"platform": "deb12"}, False, False),
        (["el9"], {}, False, False),
        (["el9"], {"platform": 9}, False, False),
        (["el9"], {"platform": "deb12", "container_runtime_version": "1.4"}, True, False),
        (["el9"], {"platform": "deb12", "container_runtime_version": None}, True, True),
    ],
)
def test_a_platform_mismatch_is_reported_and_the_pilot_goes_on(
    client: Client, configured: list[str], told: dict[str, object], provides: bool, contradicts: bool
) -> None:
    make_platform(name="el9", runs=["el8"])
    queue = make_queue(platforms=configured)
    Site.objects.update(containers_provide_platforms=provides)
    pilot = make_pilot(queue=queue)
    for _ in range(2):
        answer = post(client, REPORT, {**FIT, "node": told}, token=make_pilot_token(pilot))
        assert answer.json()["status"] == "Running"
    pilot.refresh_from_db()
    assert [check["name"] for check in pilot.node["checks"]] == ["disk"] + ["platform"] * contradicts
    if contradicts:
        assert pilot.node["checks"][-1]["detail"].startswith(
            f"The node is {told['platform']}, but the queue is configured for {configured[0]}: correct"
        )
    reported = list(ReportedPlatform.objects.values_list("queue", "platform", "host_name"))
    assert reported == ([(queue.pk, told["platform"], "wn1.cern.ch")] if isinstance(told.get("platform"), str) else [])


@pytest.mark.django_db
def test_node_problems_of_jobs_are_stored_and_the_pilot_goes_on(client: Client) -> None:
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
@pytest.mark.django_db
def test_the_end_of_a_pilot_may_be_reported_twice(client: Client) -> None:
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
def test_a_pilot_that_could_not_work_is_failed_with_its_reason(client: Client) -> None:
    pilot = make_pilot()
    sentence = "the server speaks protocol 2, this agent 1; a newer agent is needed"

    answer = post(client, REPORT, {"leaving": sentence, "failed": True}, token=make_pilot_token(pilot))

    assert answer.json() == {"pilot": pilot.pk, "status": "Failed", "token": None}
    pilot.refresh_from_db()
    assert (pilot.status, pilot.status_reason) == (PilotStatus.FAILED, sentence)


@pytest.mark.django_db
def test_an_ended_pilot_is_refused_when_it_reports(client: Client) -> None:
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
        *(({**FIT, "node": {name: 5}}, "node") for name in ("ok", "batch_id", "checks", "flaws")),
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
