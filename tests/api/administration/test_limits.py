"""Limits over REST."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from taskqueues.models import Limit
from taskqueues.services.limits import delete_limit, lock_limits, save_limit
from tests.api.administration.conftest import Administration, changes_of, client_of
from tests.database.configuration.configuring import apply
from tests.factories import make_site, make_user
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.configuration.configure import ConfigurationResult
from wms.kernel.errors import NotFoundError

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/limits/"
CLOSED = "The limit on the group lhcb_user lets no job start."


def scopes(answer: Any) -> list[str]:
    return [each["scope"] for each in answer.json()["results"]]


def test_a_manager_lists_the_limits_of_the_vo_with_their_room(administration: Administration) -> None:
    own = administration.own
    at_site = Limit.objects.create(site=own.site, running=7)
    Limit.objects.create(user=own.member, running=9)  # of a user in any VO: for operators
    answer = administration.manager.get(ADDRESS)
    assert scopes(answer) == ["the VO lhcb", "all at the site lhcb.org"]
    assert [each["room"] for each in answer.json()["results"]] == ["4 of 5 jobs", "6 of 7 jobs"]
    assert scopes(administration.manager.get(ADDRESS, {"site": "lhcb.org"})) == ["all at the site lhcb.org"]
    assert scopes(administration.operator.get(ADDRESS)) == [
        "the VO lhcb", "the VO atlas", "all at the site lhcb.org", "the user lhcb_member",
    ]  # fmt: skip
    assert administration.manager.get(f"{ADDRESS}{at_site.pk}/").json()["running"] == 7
    assert administration.manager.get(f"{ADDRESS}{administration.other.limit.pk}/").status_code == 404


def test_a_limit_is_added_changed_and_deleted(administration: Administration) -> None:
    scope = {"group": "lhcb_user", "site": "lhcb.org", "ce": "ce.lhcb.org", "job_type": "User"}
    answer = administration.manager.post(ADDRESS, {**scope, "running": 100, "delay_s": 2.5, "burst": 3})
    assert answer.status_code == 201, answer.json()
    limit = Limit.objects.get(pk=answer.json()["id"])
    own = administration.own
    assert (limit.group, limit.site, limit.ce, limit.vo, limit.user) == (own.group, own.site, own.ce, None, None)
    assert (limit.running, limit.waiting, limit.delay_s, limit.burst) == (100, None, 2.5, 3)
    address = f"{ADDRESS}{limit.pk}/"
    assert administration.manager.put(address, {"running": 200}).json()["running"] == 200
    limit.refresh_from_db()
    assert (limit.running, limit.delay_s, limit.burst, limit.job_type) == (200, None, None, "User")
    assert administration.manager.delete(address).status_code == 204
    assert administration.manager.delete(address).status_code == 404
    target = f"limit {limit.pk} on the group lhcb_user of the type User at the CE ce.lhcb.org of the site lhcb.org"
    assert changes_of() == [
        ("mallory", target, {"running": "100", "delay_s": "2.5", "burst": "3"}),
        ("mallory", target, {"running": "100 → 200", "delay_s": "2.5 → none", "burst": "3 → none"}),
        ("mallory", target, {"running": "200 → none"}),
    ]


def test_a_repeated_request_adds_no_second_limit(administration: Administration) -> None:
    body = {"group": "lhcb_user", "waiting": 5000}
    first, second = (administration.manager.post(ADDRESS, body) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    other = administration.manager.post(ADDRESS, {**body, "waiting": 6000})
    assert (other.status_code, other.json()["code"]) == (400, "bad_limit")
    assert [*other.json()["errors"]] == ["waiting"]
    assert f"Limit {first.json()['id']} bounds this" in other.json()["detail"]


def test_the_present_bounds_change_nothing(administration: Administration) -> None:
    address = f"{ADDRESS}{administration.own.limit.pk}/"
    assert administration.manager.put(address, {"running": 5}).json()["running"] == 5
    assert changes_of() == []


def test_a_limit_that_was_deleted_meanwhile_stays_deleted(administration: Administration) -> None:
    limit, by = administration.own.limit, administration.mallory
    address = f"{ADDRESS}{limit.pk}/"
    assert administration.manager.delete(address).status_code == 204
    limit.running = 7
    with transaction.atomic():
        with pytest.raises(NotFoundError):
            save_limit(limit, confirmed=[], by=by)
        with pytest.raises(NotFoundError):
            delete_limit(limit, by=by)
    assert administration.manager.put(address, {"running": 7}).status_code == 404
    assert not Limit.objects.filter(pk=limit.pk).exists()
    assert [changes for _, _, changes in changes_of()] == [{"running": "5 → none"}]


@pytest.mark.django_db(transaction=True)
def test_equal_requests_at_once_add_one_limit(administration: Administration) -> None:
    clients = [client_of(administration.mallory) for _ in range(4)]
    answers = at_once([partial(each.post, ADDRESS, {"group": "lhcb_user", "waiting": 5000}) for each in clients])
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert Limit.objects.filter(group=administration.own.group).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_file_waits_for_a_request_and_adds_no_second_limit(administration: Administration) -> None:
    text = "limits:\n- {scope: {vo: lhcb}, running: 5}\n- {scope: {vo: atlas}, running: 5}\n"
    text += "- {scope: {group: lhcb_user}, waiting: 5000}\n"
    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            lock_limits()
            file = pool.submit(on_a_connection, partial(apply, text))
            until_somebody_waits_for_a_lock(or_done=file)
            limit = Limit(group=administration.own.group, waiting=5000)
            save_limit(limit, confirmed=(), by=administration.mallory)
        assert file.result().differences == ()
    assert Limit.objects.filter(group=administration.own.group).count() == 1


def on_a_connection(work: Callable[[], ConfigurationResult]) -> ConfigurationResult:
    try:
        return work()
    finally:
        connection.close()


@pytest.mark.parametrize(("scope", "is_shared"), [("user", True), ("job_type", True), ("user", False)])
def test_the_event_of_a_limit_is_for_those_who_see_the_limit(
    administration: Administration, scope: str, is_shared: bool
) -> None:
    own, other = administration.own, administration.other
    site = make_site(name="some.org", vos=[own.vo, other.vo] if is_shared else [own.vo])
    name = {"user": "lhcb_member", "job_type": "User"}[scope]
    answer = administration.operator.post(ADDRESS, {scope: name, "site": site.name, "running": 500})
    assert answer.status_code == 201
    of_atlas = client_of(make_user(manages=[other.vo]))
    for client, sees in (
        (administration.operator, True), (administration.manager, not is_shared), (of_atlas, False),
    ):  # fmt: skip
        listed = [each["id"] for each in client.get(ADDRESS).json()["results"]]
        targets = [each["target"] for each in client.get("/api/v1/history/").json()["results"]]
        assert (answer.json()["id"] in listed) is sees
        assert any(each.startswith(f"limit {answer.json()['id']} on") for each in targets) is sees


def test_nobody_learns_of_limits_that_are_for_others(administration: Administration) -> None:
    make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    body = {"site": "shared.org", "running": 5000}
    before = administration.manager.post(ADDRESS, body)
    assert administration.operator.post(ADDRESS, body).status_code == 201
    after = administration.manager.post(ADDRESS, body)
    other = administration.manager.post(ADDRESS, {**body, "running": 6000})
    assert before.status_code == after.status_code == other.status_code == 400
    assert before.json()["errors"] == after.json()["errors"] == other.json()["errors"]


def test_a_limit_that_stops_jobs_is_refused_until_it_is_confirmed(administration: Administration) -> None:
    body = {"group": "lhcb_user", "running": 0}
    answer = administration.manager.post(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (409, "confirmation_needed")
    assert answer.json()["errors"] == {"confirmed": [CLOSED]}
    assert f"{CLOSED} 1 job runs; 1 job waits." in answer.json()["detail"]
    assert not Limit.objects.filter(group=administration.own.group).exists()
    answer = administration.manager.post(ADDRESS, {**body, "confirmed": [CLOSED]})
    assert answer.status_code == 201
    assert "and 1 does" in answer.json()["room"]
    address = f"{ADDRESS}{answer.json()['id']}/"
    assert administration.manager.put(address, {"running": 2}).status_code == 200
    assert administration.manager.put(address, {"running": 1}).status_code == 409
    assert Limit.objects.get(group=administration.own.group).running == 2


def test_a_dry_run_stores_nothing(administration: Administration) -> None:
    before = list(Limit.objects.order_by("pk").values())
    answer = administration.manager.post(ADDRESS, {"vo": "lhcb", "waiting": 5000, "dry_run": True})
    assert (answer.status_code, answer.json()["id"], answer.json()["room"]) == (200, None, "4999 of 5000 waiting jobs")
    address = f"{ADDRESS}{administration.own.limit.pk}/"
    assert administration.manager.put(address, {"running": 7, "dry_run": True}).json()["room"] == "6 of 7 jobs"
    assert list(Limit.objects.order_by("pk").values()) == before
    assert changes_of() == []


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"running": 5}, "bad_limit", "body"),
        ({"vo": "lhcb"}, "bad_limit", "running"),
        ({"vo": "atlas", "waiting": 5}, "invalid_input", "vo"),
        ({"group": "atlas_user", "waiting": 5}, "invalid_input", "group"),
        ({"site": "atlas.org", "running": 5}, "invalid_input", "site"),
        ({"vo": "lhcb", "user": "atlas_member", "waiting": 5}, "invalid_input", "user"),
        ({"user": "lhcb_member", "waiting": 5}, "bad_limit", "body"),
        ({"ce": "ce.lhcb.org", "running": 5}, "invalid_input", "ce"),
        ({"site": "lhcb.org", "ce": "ce.atlas.org", "running": 5}, "invalid_input", "ce"),
        ({"site": "shared.org", "running": 5}, "bad_limit", "body"),
        ({"site": "lhcb.org", "waiting": 5}, "bad_limit", "waiting"),
        ({"vo": "lhcb", "burst": 5, "waiting": 1}, "bad_limit", "burst"),
        ({"vo": "lhcb", "waiting": -1}, "invalid_input", "waiting"),
        ({"vo": "lhcb", "waiting": 2**31}, "invalid_input", "waiting"),
        ({"vo": "lhcb", "delay_s": 86_401}, "invalid_input", "delay_s"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    administration: Administration, body: dict[str, Any], code: str, field: str
) -> None:
    make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    answer = administration.manager.post(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert [*answer.json()["errors"]] == [field]
    assert Limit.objects.count() == 2
