"""The configuration that a pilot reads: of its queue, and of the protocol."""

from datetime import datetime

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from pilots.agent.server.configuration import parse
from pilots.domain.pilot import PilotStatus
from resources.domain.enums import PayloadIdentity
from tests.api.pilots.credentials import CONFIG, bearer
from tests.factories import make_ce, make_group, make_pilot, make_pilot_token, make_queue, make_user, make_vo
from wms.wire.protocol import WatchdogMargins


@pytest.mark.django_db
def test_the_configuration_contains_all_values_of_the_place(
    client: Client, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.WMS_HEARTBEAT_S, settings.WMS_LEASE_GRACE_S = 7, 3
    settings.WMS_STREAM_MAX_MB = 77
    queue = make_queue(
        ce=make_ce(identity=PayloadIdentity.SUDO, options={"directory": "d", "payload_users": ["wms01", "wms02"]}),
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
    queue.ce.setup = "Devel"
    queue.ce.save()
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
    assert (told["vo"], told["setup"], told["setups"]) == (pilot.vo.name, "Devel", ["Devel", "Production"])
    assert (told["group"], told["owner"]) == (None, None)
    assert (told["heartbeat_s"], told["lease_grace_s"]) == (7, 3)
    assert (told["lease_first_s"], told["lease_s"]) == (settings.WMS_LEASE_FIRST_S, settings.WMS_LEASE_S)
    assert told["match_retry_after_s"] == settings.WMS_MATCH_RETRY_AFTER_S
    assert told["sandbox_max_bytes"] == settings.WMS_SANDBOX_MAX_BYTES
    assert told["sandbox_max_unpacked_bytes"] == settings.WMS_SANDBOX_MAX_UNPACKED_BYTES
    assert told["watchdog"] == WatchdogMargins(stream_max_mb=77)._asdict()
    # What is sent arrives.
    margins = parse({**told, "watchdog": {**told["watchdog"], "stalled_s": 9}}, asked_at=0.0).watchdog
    assert margins == WatchdogMargins(stream_max_mb=77, stalled_s=9)
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
