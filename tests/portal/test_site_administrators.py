"""The portal for administrators of sites: from the log-in to their site, and nothing else."""

import pytest
from django.test import Client
from django.utils import timezone

from resources.models import Site, SiteToken
from resources.queries.visible_sites import site_token
from resources.services.administrators import make_administrator
from tests.admin.conftest import RowsOfVO, make_rows_of_vo
from tests.factories import make_pilot, make_user
from wms.accounts.models import User

pytestmark = pytest.mark.django_db
PASSWORD = "six quiet rivers cross here"


@pytest.fixture
def own(db: None) -> RowsOfVO:
    return make_rows_of_vo("lhcb")


@pytest.fixture
def sandra(own: RowsOfVO) -> User:
    user = make_user(username="sandra", password=PASSWORD)
    make_administrator(own.site, user, by=None, now=timezone.now())
    return user


@pytest.fixture
def client(sandra: User) -> Client:
    browser = Client()
    assert browser.post("/accounts/login/", {"username": sandra.username, "password": PASSWORD}).status_code == 302
    return browser


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_home_shows_the_own_sites_with_a_menu_that_fits(client: Client, own: RowsOfVO) -> None:
    page = shown(client, "/")
    assert own.site.name in page
    assert "administers a site" in page
    for address in ("/sites/", "/pilots/"):
        assert f'href="{address}"' in page
    for address in ("/jobs/submit/", "/task-queues/", "/shares/", "/plots/", "/accounting/"):
        assert f'href="{address}"' not in page
    assert "Ask a manager" not in page


def test_the_page_of_the_site_names_no_person_and_drains_it(client: Client, own: RowsOfVO) -> None:
    make_pilot(group=own.group, owner=own.member, queue=own.queue)
    address = f"/sites/{own.site.name}/"
    for page in (shown(client, address), shown(client, "/pilots/"), shown(client, "/sites/")):
        assert own.member.username not in page
        assert own.group.name not in page
    answer = client.post(f"{address}state/", {"state": "draining", "reason": "new kernel", "for_s": ""})
    assert answer.status_code == 302
    assert Site.objects.get(pk=own.site.pk).state == "draining"
    assert "state: active → draining" in shown(client, address)


def test_other_sites_and_their_tokens_are_not_there(client: Client) -> None:
    other = make_rows_of_vo("atlas")
    other.site.vos.clear()  # it serves all VOs
    assert other.site.name not in shown(client, "/") + shown(client, "/sites/")
    for address in ("", "tokens/", "failures.csv"):
        assert client.get(f"/sites/{other.site.name}/{address}").status_code == 404, address
    assert client.post(f"/sites/{other.site.name}/tokens/", {"purpose": "register"}).status_code == 404
    assert client.post(f"/sites/{other.site.name}/tokens/{other.site_token.pk}/revoke/").status_code == 404


def test_a_token_is_shown_once_and_revoked(client: Client, own: RowsOfVO) -> None:
    address = f"/sites/{own.site.name}/tokens/"
    page = client.post(address, {"purpose": "register", "days": "1"})
    assert page.status_code == 200
    plain = page.content.decode().partition('<code id="token">')[2].partition("<")[0]
    row = site_token(plain)
    assert row is not None
    assert plain not in shown(client, address)
    assert client.post(f"{address}{row.pk}/revoke/").status_code == 302
    assert site_token(plain) is None


def test_a_token_needs_a_log_in_of_the_last_minutes(client: Client, own: RowsOfVO, settings: object) -> None:
    settings.WMS_FRESH_LOG_IN_S = -1  # type: ignore[attr-defined]
    address, before = f"/sites/{own.site.name}/tokens/", SiteToken.objects.count()
    refused = client.post(address, {"purpose": "register"})
    assert refused.status_code == 400
    assert "log out, log in" in refused.content.decode()
    client.post(f"{address}{own.site_token.pk}/revoke/")
    assert (SiteToken.objects.count(), SiteToken.objects.get(pk=own.site_token.pk).revoked_at) == (before, None)


def test_failures_are_a_file(client: Client, own: RowsOfVO) -> None:
    answer = client.get(f"/sites/{own.site.name}/failures.csv")
    assert b"".join(answer).startswith(b"host,pilot,leased_at,ended_at,phase,exit_code")
