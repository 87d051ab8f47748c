"""Administrators of sites over REST: what they change at their site, and what they are not shown."""

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from pilots.models import CEHealth, Pilot
from resources.services.administrators import end_administrator, make_administrator
from tests.api.administration.conftest import Administration, client_of, history_of
from tests.factories import make_pilot, make_user, make_vo
from wms.accounts.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture
def sandra(administration: Administration) -> User:
    """An administrator of the site of ``own``, which also serves another VO; she is in no group."""
    administration.own.site.vos.add(make_vo(name="cms"))
    user = make_user(username="sandra")
    make_administrator(administration.own.site, user, by=make_user(operator=True), now=timezone.now())
    return user


@pytest.fixture
def administrator(sandra: User) -> APIClient:
    return client_of(sandra)


def test_she_drains_her_site_though_it_serves_vos_that_nobody_has_made_her_manager_of(
    administration: Administration, administrator: APIClient
) -> None:
    own = administration.own
    drain = {"state": "draining", "reason": "new kernel"}
    for place in ("", f"ces/{own.ce.name}/", f"ces/{own.ce.name}/queues/{own.queue.name}/"):
        answer = administrator.put(f"/api/v1/sites/{own.site.name}/{place}state/", drain)
        assert (answer.status_code, answer.json()["state"]) == (200, "draining"), place
    assert administration.manager.put(f"/api/v1/sites/{own.site.name}/state/", drain).status_code == 403


def test_she_sets_its_throttle_and_has_its_computing_elements_asked_again(
    administration: Administration, administrator: APIClient
) -> None:
    own = administration.own
    CEHealth.objects.update_or_create(ce=own.ce, defaults={"trouble": "It does not answer"})
    throttle = {"policy": "matches", "max_matches": 5}
    answer = administrator.put(f"/api/v1/sites/{own.site.name}/throttle/", throttle)
    assert (answer.status_code, answer.json()["max_matches"]) == (200, 5), answer.json()
    (ce,) = administrator.get("/api/v1/ces/").json()["results"]
    assert (ce["site"], ce["trouble"]) == (own.site.name, "It does not answer")
    assert administrator.post(f"/api/v1/sites/{own.site.name}/ces/{own.ce.name}/ask-again/").status_code == 200


def test_she_lists_and_drains_the_pilots_there_and_is_not_told_whose_they_are(
    administration: Administration, administrator: APIClient
) -> None:
    own, other = administration.own, administration.other
    private = make_pilot(group=own.group, owner=own.member, queue=own.queue)
    elsewhere = make_pilot(vo=other.vo, queue=other.queue)
    rows = administrator.get("/api/v1/pilots/").json()["results"]
    assert {row["site"] for row in rows} == {own.site.name}
    assert private.pk in {row["id"] for row in rows}
    assert {(row["owner"], row["group"]) for row in rows} == {(None, None)}
    assert administrator.get(f"/api/v1/pilots/{private.pk}/log/").status_code == 200
    assert administrator.get(f"/api/v1/pilots/{elsewhere.pk}/log/").status_code == 404
    body = {"action": "drain", "ids": [private.pk, elsewhere.pk], "reason": "new kernel"}
    assert administrator.post("/api/v1/pilots/bulk/", body).json() == {"matched": 1, "done": 1}
    assert not Pilot.objects.get(pk=elsewhere.pk).drained_at


def test_she_sees_no_other_site_and_none_of_its_pilots_computing_elements_or_black_holes(
    administration: Administration, administrator: APIClient
) -> None:
    other = administration.other
    other.site.vos.clear()  # it serves all VOs
    for address in ("sites", "ces", "black-holes", "pilots"):
        assert other.site.name not in administrator.get(f"/api/v1/{address}/").content.decode()
    for method, address, body in (
        ("put", f"sites/{other.site.name}/state/", {"state": "banned", "reason": "x"}),
        ("get", f"sites/{other.site.name}/throttle/", None),
        ("put", f"sites/{other.site.name}/throttle/", {"policy": "none"}),
        ("post", f"sites/{other.site.name}/ces/{other.ce.name}/ask-again/", {}),
    ):
        assert getattr(administrator, method)(f"/api/v1/{address}", body).status_code == 404, address


def test_she_sees_no_jobs_groups_or_leases(administration: Administration, administrator: APIClient) -> None:
    for address in ("jobs", "groups", "task-queues", "submissions", "replicas"):
        assert administrator.get(f"/api/v1/{address}/").json()["results"] == [], address
    for address in ("leases", "limits", "history", f"groups/{administration.own.group.name}/members"):
        assert administrator.get(f"/api/v1/{address}/").status_code == 403, address
    (site,) = administrator.get("/api/v1/sites/").json()["results"]
    assert site["vos"] == []


def test_a_manager_does_not_suspend_a_member_who_administers_a_site(administration: Administration) -> None:
    own = administration.own
    make_administrator(administration.other.site, own.member, by=None, now=timezone.now())
    answer = administration.manager.put(f"/api/v1/users/{own.member.username}/suspension/", {})
    assert answer.status_code == 403
    assert administration.operator.put(f"/api/v1/users/{own.member.username}/suspension/", {}).status_code == 200


def test_the_role_is_in_the_history_of_the_site_and_ends(
    administration: Administration, sandra: User, administrator: APIClient
) -> None:
    site = administration.own.site
    make_administrator(site, sandra, by=None, now=timezone.now())  # again
    end_administrator(site, sandra, by=None)
    end_administrator(site, sandra, by=None)
    assert [line for line in history_of(site) if "sandra" in line] == [
        "administrators: +sandra",
        "administrators: -sandra",
    ]
    assert administrator.get("/api/v1/sites/").json()["results"] == []
    assert administrator.get("/api/v1/ces/").status_code == 403
