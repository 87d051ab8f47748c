"""Tokens of sites over REST: made, listed and revoked by those who may change the site, after a fresh log-in."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from resources.models import SiteToken
from resources.queries.visible_sites import site_token
from resources.services.administrators import make_administrator
from tests.api.administration.conftest import Administration, client_of, history_of
from tests.factories import make_user, make_vo
from wms.accounts.models import ApiToken

pytestmark = pytest.mark.django_db


@pytest.fixture
def administrator(administration: Administration) -> APIClient:
    administration.own.site.vos.add(make_vo(name="cms"))
    user = make_user(username="sandra")
    make_administrator(administration.own.site, user, by=None, now=timezone.now())
    return client_of(user)


def address_of(administration: Administration) -> str:
    return f"/api/v1/sites/{administration.own.site.name}/tokens/"


def test_a_token_is_made_with_an_end_shown_once_listed_and_revoked(
    administration: Administration, administrator: APIClient
) -> None:
    address = address_of(administration)
    answer = administrator.post(address, {"purpose": "register", "for_s": 3600})
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    row = site_token(made["token"])
    assert row is not None
    assert (row.pk, row.site, row.purpose) == (made["id"], administration.own.site, "register")
    assert row.expires_at is not None
    assert timedelta(minutes=55) < row.expires_at - timezone.now() <= timedelta(hours=1)
    listed = administrator.get(address)
    assert made["id"] in {each["id"] for each in listed.json()["results"]}
    assert made["token"] not in listed.content.decode()
    assert administrator.delete(f"{address}{made['id']}/").status_code == 204
    assert site_token(made["token"]) is None
    assert administrator.delete(f"{address}{made['id']}/").status_code == 204
    lines = history_of(administration.own.site)
    assert len([line for line in lines if line == f"token_id: {made['id']}"]) == 2


def test_a_dry_run_makes_no_token_and_says_its_end(administration: Administration, administrator: APIClient) -> None:
    before = SiteToken.objects.count()
    answer = administrator.post(address_of(administration), {"purpose": "register", "dry_run": True}).json()
    assert (answer["id"], answer["token"]) == (None, None)
    assert answer["expires_at"] is not None
    assert SiteToken.objects.count() == before


def test_an_end_that_is_past_or_too_late_is_refused(administration: Administration, administrator: APIClient) -> None:
    for end in ({"until": "2020-01-01T00:00:00Z"}, {"for_s": 5 * 365 * 86400}):
        answer = administrator.post(address_of(administration), {"purpose": "register", **end})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_token_end")


def test_tokens_need_a_fresh_log_in_and_reading_does_not(
    administration: Administration, administrator: APIClient
) -> None:
    address = address_of(administration)
    ApiToken.objects.update(created_at=timezone.now() - timedelta(days=1))
    for method, path in (("post", address), ("delete", f"{address}{administration.own.site_token.pk}/")):
        answer = getattr(administrator, method)(path, {"purpose": "register"})
        assert (answer.status_code, answer.json()["code"]) == (403, "fresh_log_in_needed")
    assert administrator.get(address).status_code == 200


def test_tokens_of_other_sites_are_not_there(administration: Administration, administrator: APIClient) -> None:
    other = administration.other
    assert administrator.get(f"/api/v1/sites/{other.site.name}/tokens/").status_code == 404
    assert administrator.post(f"/api/v1/sites/{other.site.name}/tokens/", {"purpose": "register"}).status_code == 404
    # By way of her own site.
    assert administrator.delete(f"{address_of(administration)}{other.site_token.pk}/").status_code == 404
    assert SiteToken.objects.get(pk=other.site_token.pk).revoked_at is None


def test_a_manager_makes_none_at_a_site_of_several_vos(
    administration: Administration,
    administrator: APIClient,
) -> None:
    answer = administration.manager.post(address_of(administration), {"purpose": "register"})
    assert answer.status_code == 403


def test_operators_make_list_and_end_administrators(administration: Administration) -> None:
    make_user(username="sandra")
    address, operator = f"/api/v1/sites/{administration.own.site.name}/administrators/", administration.operator
    assert operator.put(f"{address}sandra/", {"dry_run": True}).status_code == 200
    assert operator.get(address).json() == {"administrators": []}
    assert operator.put(f"{address}sandra/", {}).json()["made_by"] == "olga"
    assert operator.put(f"{address}sandra/", {}).status_code == 200
    assert [each["username"] for each in operator.get(address).json()["administrators"]] == ["sandra"]
    assert operator.put(f"{address}nobody/", {}).status_code == 404
    assert administration.manager.put(f"{address}sandra/", {}).status_code == 403
    assert administration.manager.delete(f"{address}sandra/").status_code == 403
    assert operator.delete(f"{address}sandra/").status_code == 204
    assert operator.delete(f"{address}sandra/").status_code == 204
    assert operator.get(address).json() == {"administrators": []}
