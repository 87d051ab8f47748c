"""Hosts that get no jobs, over REST: list them, and let one get jobs again."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pilots.models import BlackHole, Pilot
from tests.api.administration.conftest import Administration, client_of
from tests.factories import make_black_hole, make_group, make_site, make_user
from wms.accounts.domain import TokenScope

pytestmark = pytest.mark.django_db

LIST = "/api/v1/black-holes/"


def lift_of(black_hole: BlackHole) -> str:
    return f"{LIST}{black_hole.pk}/lift/"


def moment(at: Any) -> str:
    return str(at.isoformat().replace("+00:00", "Z"))


@pytest.fixture
def in_force(administration: Administration) -> BlackHole:
    """Return a host of the own site that gets no jobs, whose pilot is marked."""
    black_hole = make_black_hole(site=administration.own.site, host_name="node2", found_at=timezone.now())
    Pilot.objects.filter(pk=administration.own.pilot.pk).update(black_hole=black_hole)
    return black_hole


def test_a_manager_sees_black_holes_at_sites_that_serve_the_vo_newest_first(
    administration: Administration, in_force: BlackHole
) -> None:
    shared = make_black_hole(site=make_site(name="shared.org"), found_at=timezone.now() - timedelta(days=1))
    answer = administration.manager.get(LIST).json()
    ids = [each["id"] for each in answer["results"]]
    assert ids == [shared.pk, in_force.pk, administration.own.black_hole.pk]
    assert answer["results"][1] == {
        "id": in_force.pk,
        "host": "node2",
        "site": "lhcb.org",
        "found_at": moment(in_force.found_at),
        "until": moment(in_force.until),
        "fetched": 12,
        "failed": 11,
        "reason": "11 of the 12 jobs that ended here failed",
        "in_force": True,
        "lifted_at": None,
        "lifted_by": "",
    }
    assert len(administration.operator.get(LIST).json()["results"]) == 4


def test_the_list_has_filters_and_pages(administration: Administration, in_force: BlackHole) -> None:
    manager, over = administration.manager, administration.own.black_hole

    def ids(query: str) -> list[int]:
        return [each["id"] for each in manager.get(f"{LIST}?{query}").json()["results"]]

    assert ids("in_force=true") == [in_force.pk]
    assert ids("in_force=false") == [over.pk]
    assert ids("host=node2") == [in_force.pk]
    assert ids("site=lhcb.org") == [in_force.pk, over.pk]
    assert ids("site=atlas.org") == []
    first = manager.get(f"{LIST}?page_size=1").json()
    assert [each["id"] for each in manager.get(first["next"]).json()["results"]] == [over.pk]
    refused = manager.get(f"{LIST}?in_force=maybe")
    assert (refused.status_code, [*refused.json()["errors"]]) == (400, ["in_force"])


def test_a_lifted_host_gets_jobs_again(administration: Administration, in_force: BlackHole) -> None:
    before = timezone.now()
    answer = administration.manager.post(lift_of(in_force), {})
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["in_force"], answer.json()["lifted_by"]) == (False, "mallory")
    in_force.refresh_from_db()
    assert in_force.lifted_at is not None
    assert in_force.lifted_at >= before
    assert Pilot.objects.get(pk=administration.own.pilot.pk).black_hole is None
    assert administration.operator.post(lift_of(in_force), {}).json() == answer.json()


def test_a_dry_run_answers_as_a_change_and_changes_nothing(administration: Administration, in_force: BlackHole) -> None:
    answer = administration.manager.post(lift_of(in_force), {"dry_run": True})
    assert (answer.status_code, answer.json()["in_force"], answer.json()["lifted_by"]) == (200, False, "mallory")
    assert BlackHole.objects.get(pk=in_force.pk).lifted_at is None
    assert Pilot.objects.get(pk=administration.own.pilot.pk).black_hole == in_force


def test_a_shared_site_is_for_operators(administration: Administration, in_force: BlackHole) -> None:
    administration.own.site.vos.add(administration.other.vo)
    refused = administration.manager.post(lift_of(in_force), {})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "ask an operator" in refused.json()["detail"]
    assert BlackHole.objects.get(pk=in_force.pk).lifted_at is None
    assert administration.operator.post(lift_of(in_force), {}).json()["lifted_by"] == "olga"


def test_others_learn_and_change_nothing(administration: Administration, in_force: BlackHole) -> None:
    other_manager = client_of(make_user(username="oscar", manages=[administration.other.vo]))
    member = client_of(make_user(groups=[make_group(vo=administration.own.vo)]))
    by_script = client_of(administration.mallory, scope=TokenScope.MANAGE)
    assert [each["site"] for each in other_manager.get(LIST).json()["results"]] == ["atlas.org"]
    assert member.get(LIST).status_code == 403
    refused = [client.post(lift_of(in_force), {}).status_code for client in (other_manager, member, by_script)]
    assert refused == [404, 403, 403]
    assert administration.manager.post(f"{LIST}{10**9}/lift/", {}).status_code == 404
    assert administration.manager.post(lift_of(in_force), {"dry_run": "no"}).status_code == 400
    assert BlackHole.objects.get(pk=in_force.pk).lifted_at is None
