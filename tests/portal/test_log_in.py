"""Log-in, log-out, and the head of every page."""

import re

import pytest
from django.test import Client

from tests.factories import make_group, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.domain import MAX_FAILURES_OF_NAME_AND_ADDRESS
from wms.accounts.models import FailedLogIn, Group, User

pytestmark = pytest.mark.django_db

LOG_IN = "/accounts/login/"


def test_an_anonymous_request_is_redirected_to_the_log_in_and_back() -> None:
    browser = Client()
    response = browser.get("/jobs/submit/")
    assert response["Location"] == f"{LOG_IN}?next=/jobs/submit/"


@pytest.mark.parametrize(
    "address", ["/jobs/", "/jobs/1/", "/jobs/submit/", "/jobs/submit/jdl/", "/jobs/actions/", "/jobs/1/actions/"]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_page_requires_a_log_in(address: str, method: str) -> None:
    response = getattr(Client(), method)(address)
    assert response.status_code == 302
    assert response["Location"].startswith(LOG_IN)


def test_the_right_password_leads_to_the_first_page(alice: User) -> None:
    browser = Client()
    response = browser.post(LOG_IN, {"username": "alice", "password": "correct horse", "next": ""}, follow=True)
    assert response.redirect_chain == [("/", 302)]
    page = response.content.decode()
    assert "alice" in page
    assert "acting in lhcb_user" in page


def test_the_log_in_redirects_to_the_wanted_page_of_this_server_only(alice: User) -> None:
    form = {"username": "alice", "password": "correct horse"}
    assert Client().post(LOG_IN, {**form, "next": "/jobs/submit/"})["Location"] == "/jobs/submit/"
    assert Client().post(LOG_IN, {**form, "next": "https://evil.example/"})["Location"] == "/"


@pytest.mark.parametrize("username", ["alice", "nobody"])
def test_a_wrong_password_and_a_wrong_name_get_the_same_message(username: str, alice: User) -> None:
    response = Client().post(LOG_IN, {"username": username, "password": "wrong"})
    assert response.status_code == 200
    assert "User name or password is wrong, or the user is suspended." in response.content.decode()
    assert FailedLogIn.objects.count() == 1


def test_the_login_delay_applies_to_the_portal_too(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS):
        Client().post(LOG_IN, {"username": "alice", "password": "wrong"})
    response = Client().post(LOG_IN, {"username": "alice", "password": "correct horse"})
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert "try again in" in response.content.decode()


def test_empty_fields_are_not_counted_as_an_attempt(alice: User) -> None:
    assert Client().post(LOG_IN, {"username": "alice", "password": ""}).status_code == 200
    assert not FailedLogIn.objects.exists()


def test_a_name_with_a_nul_is_refused_and_not_looked_up() -> None:
    assert Client().post(LOG_IN, {"username": "a\x00", "password": "x"}).status_code == 200


def test_log_out_requires_a_post(portal: Client) -> None:
    assert portal.get("/accounts/logout/").status_code == 405
    assert portal.post("/accounts/logout/")["Location"] == LOG_IN
    assert portal.get("/jobs/").status_code == 302


def test_a_suspended_user_loses_access_at_once(portal: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert portal.get("/jobs/").status_code == 302


def test_the_header_shows_users_with_several_groups_or_none(group: Group, client_of: ClientOf) -> None:
    several = make_user(groups=[group, make_group()])
    assert "member of 2 groups" in client_of(several).get("/jobs/").content.decode()
    assert "in no group" in client_of(make_user()).get("/jobs/").content.decode()


def test_the_link_to_the_administration_is_shown_to_staff_only(portal: Client, client_of: ClientOf) -> None:
    assert "Administration" not in portal.get("/jobs/").content.decode()
    assert "Administration" in client_of(make_user(staff=True)).get("/jobs/").content.decode()


def test_pages_have_and_respect_a_strict_content_security_policy(portal: Client) -> None:
    for address in ("/jobs/", "/jobs/submit/", "/jobs/submit/jdl/", "/nowhere/", "/admin/login/"):
        response = portal.get(address)
        policy = response["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        page = response.content.decode()
        # Scripts are files of ours, and nothing runs from an attribute.
        assert re.findall(r'<script(?! src="/static/| type="module" src="/static/)', page) == []
        assert re.findall(r"<script[^>]*>(?!</script>)", page) == []
        assert re.findall(r"\son\w+=", page) == []
        assert "style=" not in page
        assert "<style" not in page


def test_swagger_alone_may_have_styles_in_its_page(portal: Client) -> None:
    policy = portal.get("/api/v1/docs/")["Content-Security-Policy"]
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "script-src" not in policy


def test_a_missing_page_has_an_error_page_of_the_portal(portal: Client) -> None:
    response = portal.get("/nowhere/")
    assert response.status_code == 404
    assert "There is no such page" in response.content.decode()


def test_a_form_without_csrf_token_has_an_error_page_of_the_portal(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    for address in ("/jobs/actions/", "/jobs/submit/", "/jobs/submit/jdl/", "/jobs/1/actions/"):
        response = browser.post(address, {"action": "kill", "executable": "x", "jdl": "x"})
        assert response.status_code == 403
        assert "This form is too old" in response.content.decode()
