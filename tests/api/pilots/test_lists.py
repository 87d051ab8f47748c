"""GET /api/v1/pilots/: the list of pilots, for people."""

import pytest
from rest_framework.test import APIClient

from pilots.models import Pilot
from tests.factories import make_ce, make_group, make_pilot, make_queue, make_site, make_token, make_user, make_vo
from wms.accounts.models import User

pytestmark = pytest.mark.django_db


def listed(user: User, **query: str) -> list[dict[str, object]]:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user)}")
    answer = client.get("/api/v1/pilots/", query)
    assert answer.status_code == 200, answer.content
    rows: list[dict[str, object]] = answer.json()["results"]
    return rows


def test_managers_find_the_pilots_of_their_vo_and_owners_their_private_ones() -> None:
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo)
    queue = make_queue(name="grid", ce=make_ce(name="ce01", site=make_site(name="LCG.CERN.ch", vos=[vo])))
    alice, mallory = make_user(username="alice", groups=[group]), make_user(username="mallory", manages=[vo])
    generic = make_pilot(vo=vo, queue=queue)
    private = make_pilot(vo=vo, queue=queue, group=group, owner=alice)
    Pilot.objects.filter(pk=generic.pk).update(host_name="wn1")
    assert [row["id"] for row in listed(mallory)] == [private.pk, generic.pk]
    assert [row["id"] for row in listed(mallory, ordering="id", host="wn1")] == [generic.pk]
    (row,) = listed(alice)
    place = {"site": "LCG.CERN.ch", "ce": "ce01", "queue": "grid", "vo": "lhcb"}
    assert row == row | place | {"id": private.pk, "owner": "alice", "group": "lhcb_user"}
    assert listed(make_user(groups=[group])) == []
    assert listed(make_user(manages=[make_vo()])) == []
    assert len(listed(make_user(operator=True))) == 2


def test_other_users_see_no_pilots() -> None:
    assert APIClient().get("/api/v1/pilots/").status_code == 401
