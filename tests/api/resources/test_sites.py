"""GET /api/v1/sites/, and the rights of a site's token."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpRequest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.test import APIClient

from resources.api.authentication import SiteCredential, SiteTokenAuthentication
from resources.api.gateway import gateway_package
from resources.domain.enums import ResourceState, SiteTokenPurpose
from resources.models import SiteToken
from resources.services.site_tokens import issue_site_token, set_site_token
from tests.factories import NOW, make_ce, make_group, make_queue, make_site, make_token, make_user, make_vo
from wms.accounts.models import VO

pytestmark = pytest.mark.django_db


def client_with(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


@pytest.fixture
def lhcb() -> VO:
    return make_vo(name="lhcb")


@pytest.fixture
def alice(lhcb: VO) -> APIClient:
    """Return a client of a user of lhcb."""
    return client_with(make_token(make_user(groups=[make_group(vo=lhcb)])))


def sites(client: APIClient, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/sites/{query}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def test_a_user_sees_the_sites_of_the_own_vos_with_ces_and_queues(alice: APIClient, lhcb: VO) -> None:
    later = datetime.now(tz=UTC) + timedelta(days=1)
    parameters = {"Memory": 2000, "SoftwareTag": ["v1", "v2"]}
    site = make_site(name="CERN", vos=[lhcb], parameters=parameters, vo_parameters={"lhcb": {"Memory": 4000}})
    ce = make_ce(name="ce1", site=site, state=ResourceState.DRAINING, state_until=later)
    make_queue(name="grid", ce=ce, platforms=["el9"], tags=["gpu"], vo_parameters={"lhcb": {"Memory": 8000}}, gpus=2)
    make_site(name="BNL", vos=[make_vo(name="atlas")])

    (found,) = sites(alice)
    (found_ce,) = found["ces"]
    (found_queue,) = found_ce["queues"]
    assert (found["name"], found["vos"], found["state"], found["state_until"]) == ("CERN", ["lhcb"], "active", None)
    assert (found_ce["state"], datetime.fromisoformat(found_ce["state_until"])) == ("draining", later)
    assert (found_queue["name"], found_queue["platforms"], found_queue["tags"]) == ("grid", ["el9"], ["gpu"])
    assert found_queue["parameters"] == {"memory": 8000, "softwaretag": ["v1", "v2"]}
    assert (found["parameters"]["memory"], found_ce["parameters"]["memory"], found["vo_parameters"]) == (4000, 4000, {})
    slot = {"wall_time_s": None, "gpus": 2, "disk_mb": 0, "container": False}
    assert {name: found_queue[name] for name in slot} == slot


def test_a_shared_site_does_not_disclose_other_vos(alice: APIClient, lhcb: VO) -> None:
    make_site(name="CERN", vos=[lhcb, make_vo(name="atlas")])
    assert [site["vos"] for site in sites(alice)] == [["lhcb"]]
    operator = client_with(make_token(make_user(operator=True)))
    assert [site["vos"] for site in sites(operator)] == [["atlas", "lhcb"]]


def test_parameters_of_one_vo_are_shown_on_request(alice: APIClient, lhcb: VO) -> None:
    site = make_site(parameters={"Memory": 2000}, vo_parameters={"lhcb": {"Memory": 4000}, "atlas": {"Memory": 1}})
    make_queue(ce=make_ce(site=site), vo_parameters={"lhcb": {"Scratch": 1}})
    make_vo(name="atlas")
    (found,) = sites(alice, "?vo=lhcb")
    assert found["parameters"] == {"memory": 4000}
    assert found["ces"][0]["queues"][0]["parameters"] == {"memory": 4000, "scratch": 1}
    assert sites(alice, "?vo=atlas") == []


def test_parameters_of_some_vos_of_the_caller_are_shown_by_vo(lhcb: VO) -> None:
    atlas, cms = make_vo(name="atlas"), make_vo(name="cms")
    site = make_site(
        parameters={"Memory": 2000, "Disk": 1, "Flag": True},
        vo_parameters={"lhcb": {"Memory": 4000, "Flag": 1}, "cms": {"Disk": 5}},
    )
    make_queue(ce=make_ce(site=site, parameters={"Memory": 3000}))
    bob = client_with(make_token(make_user(groups=[make_group(vo=lhcb), make_group(vo=atlas)])))
    (found,) = sites(bob)
    assert found["parameters"] == {"disk": 1}
    # What cms has is not Bob's business.
    assert found["vo_parameters"] == {"lhcb": {"flag": 1, "memory": 4000}, "atlas": {"flag": True, "memory": 2000}}
    assert found["ces"][0]["queues"][0]["parameters"] == {"disk": 1, "memory": 3000}
    assert found["ces"][0]["queues"][0]["vo_parameters"] == {"lhcb": {"flag": 1}, "atlas": {"flag": True}}
    operator = client_with(make_token(make_user(operator=True)))
    (found,) = sites(operator)
    assert found["parameters"] == {}
    assert found["vo_parameters"]["cms"] == {"disk": 5, "flag": True, "memory": 2000}
    site.vos.set([lhcb, cms])
    (found,) = sites(bob)
    assert (found["parameters"], found["vo_parameters"]) == ({"disk": 1, "flag": 1, "memory": 4000}, {})


def test_a_ban_that_is_over_is_not_shown(alice: APIClient) -> None:
    make_site(state=ResourceState.BANNED, state_until=datetime.now(tz=UTC) - timedelta(seconds=1))
    (found,) = sites(alice)
    assert (found["state"], found["state_until"]) == ("active", None)


def test_thirty_sites_need_as_many_queries_as_one(
    alice: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        make_queue()
    with django_assert_max_num_queries(6):
        assert len(sites(alice)) == 30


def test_sites_come_in_pages_by_name(alice: APIClient) -> None:
    for name in ("B", "C", "A"):
        make_site(name=name)
    first = alice.get("/api/v1/sites/?page_size=2").json()
    assert [site["name"] for site in first["results"]] == ["A", "B"]
    assert [site["name"] for site in alice.get(first["next"]).json()["results"]] == ["C"]


@pytest.mark.parametrize("query", ["?vos=lhcb", "?page_size=0", "?ordering=state"])
def test_a_wrong_query_is_refused(alice: APIClient, query: str) -> None:
    assert alice.get(f"/api/v1/sites/{query}").status_code == 400


@pytest.mark.parametrize(("caller", "status"), [("nobody", 401), ("site", 403), ("unknown", 401), ("user", 200)])
def test_access_rights_to_the_list_of_sites(caller: str, status: int) -> None:
    clients = {
        "nobody": APIClient(),
        "site": client_with(issue_site_token(make_site(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())),
        "unknown": client_with("wmss_unknown"),
        "user": client_with(make_token(make_user())),
    }
    assert clients[caller].get("/api/v1/sites/").status_code == status


# ---- Tokens of sites -------------------------------------------------------------------------------------------------


def authenticated(token: str) -> SiteCredential | None:
    """Return the credential of a request with this token."""
    request = HttpRequest()
    request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    found = SiteTokenAuthentication().authenticate(Request(request))
    return None if found is None else found[1]


def test_a_site_token_contains_site_and_purpose(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    site = make_site(name="CERN")
    token = issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    with django_assert_num_queries(1):
        found = authenticated(token)
    assert found == SiteCredential(
        token_id=SiteToken.objects.get().pk, site_id=site.pk, site_name="CERN", purpose=SiteTokenPurpose.REGISTER
    )


def test_a_token_of_the_configuration_file_may_have_any_spelling() -> None:
    site = make_site()
    set_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, plain="s3cret!", now=NOW)
    found = authenticated("s3cret!")
    assert found is not None
    assert found.purpose == SiteTokenPurpose.ADVERTISE


def test_a_token_that_was_issued_and_revoked_is_refused() -> None:
    token = issue_site_token(make_site(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    SiteToken.objects.update(revoked_at=NOW)
    with pytest.raises(AuthenticationFailed):
        authenticated(token)


def test_tokens_of_other_kinds_are_ignored_without_a_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(0):
        assert [authenticated(token) for token in ("wmsu_x", "wmsp_x", "wmsj_x")] == [None, None, None]
    assert authenticated("nobody-knows-this") is None


# ---- The gateway's program -------------------------------------------------------------------------------------------


def test_the_advertising_program_is_public() -> None:
    answer = APIClient().get("/api/v1/gateway/wms_advertise.py", headers={"Accept": "image/png"})
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/x-python")
    assert answer.content == gateway_package()
    assert 'filename="wms_advertise.py"' in answer["Content-Disposition"]
