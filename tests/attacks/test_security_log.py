"""Attacks are recorded in a log that the attacker cannot forge or delete, and that contains no secrets."""

import csv
import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.database.configuration.configuring import ENVIRON, EXAMPLE, apply
from tests.factories import make_site, make_token, make_user, make_vo
from wms.accounts.domain import SecurityEventKind as Kind
from wms.accounts.models import SecurityEvent
from wms.accounts.security_log import MAX_ADDRESSES_IN_WINDOW, MAX_REFUSALS_IN_WINDOW, record, remove_old

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
LOG_IN = "/api/v1/auth/token/"


def events() -> list[tuple[Any, ...]]:
    """Return (kind, actor, address, target) of each event, oldest first."""
    return list(SecurityEvent.objects.order_by("id").values_list("kind", "actor_name", "address", "target"))


def try_password(client: Client, username: str, password: str) -> int:
    given = {"username": username, "password": password}
    return client.post(LOG_IN, given, content_type="application/json").status_code


def test_failed_log_ins_are_recorded_without_the_typed_name(client: Client) -> None:
    make_user(username="bob", password=PASSWORD)
    assert try_password(client, "bob", "wrong password of bob") == 401
    assert try_password(client, "my password typed as a name", "x") == 401
    while try_password(client, "bob", "wrong password of bob") != 429:
        pass
    assert events() == [
        (Kind.LOG_IN_REFUSED, "", "127.0.0.1", "user bob"),
        (Kind.LOG_IN_REFUSED, "", "127.0.0.1", "no such user"),
        (Kind.LOG_IN_DELAYED, "", "127.0.0.1", "user bob"),
    ]
    assert SecurityEvent.objects.get(kind=Kind.LOG_IN_REFUSED, target="user bob").times > 1
    assert "typed" not in str(list(SecurityEvent.objects.values()))


def test_other_refusals_do_not_hide_failed_log_ins(client: Client) -> None:
    make_user(username="bob", password=PASSWORD)
    for number in range(2 * MAX_REFUSALS_IN_WINDOW):
        answer = client.get(f"/api/v1/jobs/{number}/", HTTP_AUTHORIZATION="Bearer none")
        assert answer.status_code == 401
    assert try_password(client, "bob", "guess") == 401
    assert (Kind.LOG_IN_REFUSED, "", "127.0.0.1", "user bob") in events()


def test_a_flood_of_refusals_records_its_address(client: Client) -> None:
    for number in range(2 * MAX_REFUSALS_IN_WINDOW):
        client.get(f"/api/v1/jobs/{number}/", HTTP_AUTHORIZATION="Bearer none", REMOTE_ADDR="192.0.2.7")
    (many,) = SecurityEvent.objects.filter(facts={"many": True})
    assert (many.kind, many.address, many.target, many.times) == (Kind.CREDENTIAL_REFUSED, "192.0.2.7", "", 16)
    assert SecurityEvent.objects.count() == MAX_REFUSALS_IN_WINDOW + 1
    for number in range(1000):
        where = f"198.51.100.{number % 250}"
        record(Kind.CREDENTIAL_REFUSED, address=where, target=f"GET /api/v1/jobs/{number}/")
    assert SecurityEvent.objects.count() == MAX_REFUSALS_IN_WINDOW + MAX_ADDRESSES_IN_WINDOW + 1


def test_log_in_and_log_out_are_recorded(client: Client) -> None:
    make_user(username="bob", password=PASSWORD)
    assert client.post("/accounts/login/", {"username": "bob", "password": PASSWORD}).status_code == 302
    assert client.post("/accounts/logout/").status_code == 302
    kinds = [(kind, who, address) for kind, who, address, _ in events()]
    assert kinds == [(Kind.LOG_IN_ACCEPTED, "bob", "127.0.0.1"), (Kind.LOG_OUT, "bob", "127.0.0.1")]


def test_a_page_that_refuses_a_log_in_is_one_event(client: Client) -> None:
    make_user(username="bob", password=PASSWORD)
    while client.post("/accounts/login/", {"username": "bob", "password": "wrong"}).status_code != 429:
        pass
    assert {kind for kind, *_ in events()} == {Kind.LOG_IN_REFUSED, Kind.LOG_IN_DELAYED}


def test_token_events_are_recorded_without_secrets(client: Client) -> None:
    bob = make_user(username="bob", password=PASSWORD)
    given = {"username": "bob", "password": PASSWORD}
    over_rest = client.post(LOG_IN, given, content_type="application/json").json()["token"]
    client.post("/api/v1/auth/revoke/", headers={"authorization": f"Bearer {over_rest}"})
    vo, site = make_vo(), make_site()
    told = [over_rest]
    for arguments in (
        ["token", "bob"],
        ["site_token", site.name, "--for", "register"],
        ["pilot_token", "--vo", vo.name],
    ):
        output = StringIO()
        call_command(*arguments, stdout=output)
        told.append(output.getvalue().strip())
    assert [(kind, target) for kind, _, _, target in events() if kind != Kind.LOG_IN_ACCEPTED] == [
        (Kind.TOKEN_ISSUED, "user bob"),
        (Kind.TOKEN_REVOKED, "user bob"),
        (Kind.TOKEN_ISSUED, "user bob"),
        (Kind.TOKEN_ISSUED, f"site {site.name}"),
        (Kind.TOKEN_ISSUED, f"pilot {vo.pilots.get().pk}"),
    ]
    everything = str(list(SecurityEvent.objects.values()))
    assert not any(token in everything for token in told)
    assert bob.api_tokens.count() == 1, "a new token takes the place of those that were revoked"


def test_a_flood_of_bad_tokens_is_a_few_rows(client: Client) -> None:
    for number in range(300):
        headers = {"authorization": f"Bearer wmsu_{number:043d}"}
        assert client.get("/api/v1/auth/me/", headers=headers).status_code == 401
    (event,) = SecurityEvent.objects.all()
    assert (event.kind, event.times) == (Kind.CREDENTIAL_REFUSED, 256)


def test_a_refusal_is_recorded_though_its_transaction_is_rolled_back(client: Client) -> None:
    eve = make_user(username="eve", staff=True)
    client.force_login(eve)
    assert client.post("/admin/accounts/user/add/", {"username": "mallory"}).status_code == 403
    assert events() == [(Kind.ACCESS_REFUSED, "eve", "127.0.0.1", "POST /admin/accounts/user/add/")]


def test_a_forged_address_cannot_forge_a_record(client: Client) -> None:
    headers = {"authorization": f"Bearer {make_token(make_user(username='eve'))}", "accept": "application/json"}
    client.post("/api/v1/matches/preview/%0a2026-11-23 INFO wms forged/", headers=headers)
    client.delete("/api/v1/matches/preview/", headers=headers)
    client.post("/api/v1/matches/preview/", {}, content_type="application/json", headers=headers)
    assert all(target.isprintable() for *_, target in events())


def test_a_configuration_file_is_recorded_without_its_secrets() -> None:
    apply(EXAMPLE, dry_run=True)
    assert events() == []
    apply(EXAMPLE)
    kinds = {kind for kind, *_ in events()}
    assert kinds >= {
        Kind.CONFIGURATION_APPLIED,
        Kind.USER_ADDED,
        Kind.RIGHTS_CHANGED,
        Kind.COMPUTING_ELEMENT_CHANGED,
        Kind.STORAGE_ELEMENT_CHANGED,
        Kind.TOKEN_ISSUED,
    }
    everything = str(list(SecurityEvent.objects.values()))
    assert not any(secret in everything for secret in ENVIRON.values())
    SecurityEvent.objects.all().delete()
    apply(EXAMPLE)
    assert events() == []


def test_a_suspension_by_the_file_is_recorded() -> None:
    apply("users: [{username: bob, operator: true}]")
    apply("users: [{username: bob, operator: false, suspended: true}]")
    suspended, rights = (SecurityEvent.objects.get(kind=kind) for kind in (Kind.USER_SUSPENDED, Kind.RIGHTS_CHANGED))
    assert suspended.facts == {"what": "changed", "changes": {"suspended": True}}
    assert rights.facts == {"what": "changed", "changes": {"operator": False}}


# ---- The export ------------------------------------------------------------------------------------------------------


def exported(*arguments: str) -> str:
    output = StringIO()
    call_command("security_log", *arguments, stdout=output)
    return output.getvalue()


def test_the_security_log_is_exported_as_json_and_csv() -> None:
    record(Kind.USER_SUSPENDED, actor=make_user(username="wanda"), address="192.0.2.7", target="user bob", reason="x")
    record(Kind.LOG_OUT, actor="=HYPERLINK()", address="192.0.2.8")
    suspended, log_out = map(json.loads, exported().splitlines())
    assert {name: suspended[name] for name in ("kind", "actor_name", "address", "target", "facts", "times")} == {
        "kind": "user.suspended",
        "actor_name": "wanda",
        "address": "192.0.2.7",
        "target": "user bob",
        "facts": {"reason": "x"},
        "times": 1,
    }
    assert log_out["kind"] == "log_out"
    first, second = csv.DictReader(StringIO(exported("--format", "csv")))
    assert json.loads(first["facts"]) == {"reason": "x"}
    assert second["actor_name"] == "'=HYPERLINK()"
    assert exported("--kind", "log_out").count("\n") == 1
    assert exported("--user", "wanda").count("\n") == 1
    assert exported("--since", "2030-01-01") == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--since", "yesterday"], '"yesterday" is not a time; write 2026-06-01, 2026-06-01T12:00:00Z, 12h or 30d.'),
        (["--since", "2026-02-30"], '"2026-02-30" is not a time'),
        (["--since", ""], '"" is not a time'),
        (["--kind", "log_uot"], 'There is no kind "log_uot". Did you mean'),
    ],
)
def test_wrong_export_options_are_reported_in_words(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError) as refusal:
        exported(*arguments)
    assert sentence in str(refusal.value)


def test_old_events_are_removed(settings: Any) -> None:
    settings.WMS_SECURITY_LOG_DAYS = 30
    record(Kind.LOG_OUT, actor="old")
    SecurityEvent.objects.update(at=timezone.now() - timedelta(days=31))
    record(Kind.LOG_OUT, actor="new")
    assert remove_old(now=timezone.now()) == 1
    assert [who for _, who, _, _ in events()] == ["new"]
