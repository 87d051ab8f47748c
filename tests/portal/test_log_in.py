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


def test_who_is_not_logged_in_is_sent_to_the_log_in_and_back() -> None:
    browser = Client()
    response = browser.get("/jobs/submit/")
    assert response["Location"] == f"{LOG_IN}?next=/jobs/submit/"


@pytest.mark.parametrize(
    "address", ["/jobs/", "/jobs/1/", "/jobs/submit/", "/jobs/submit/jdl/", "/jobs/actions/", "/jobs/1/actions/"]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_no_page_opens_without_log_in(address: str, method: str) -> None:
    response = getattr(Client(), method)(address)
    assert response.status_code == 302
    assert response["Location"].startswith(LOG_IN)


def test_the_right_password_opens_the_jobs(alice: User) -> None:
    browser = Client()
    response = browser.post(LOG_IN, {"username": "alice", "password": "correct horse", "next": ""}, follow=True)
    assert response.redirect_chain == [("/jobs/", 302)]
    page = response.content.decode()
    assert "alice" in page
    assert "acting in lhcb_user" in page


def test_where_one_wanted_to_go_one_gets_but_never_to_another_server(alice: User) -> None:
    form = {"username": "alice", "password": "correct horse"}
    assert Client().post(LOG_IN, {**form, "next": "/jobs/submit/"})["Location"] == "/jobs/submit/"
    assert Client().post(LOG_IN, {**form, "next": "https://evil.example/"})["Location"] == "/jobs/"


@pytest.mark.parametrize("username", ["alice", "nobody"])
def test_a_wrong_password_and_a_wrong_name_are_told_alike(username: str, alice: User) -> None:
    response = Client().post(LOG_IN, {"username": username, "password": "wrong"})
    assert response.status_code == 200
    assert "User name or password is wrong, or the user is suspended." in response.content.decode()
    assert FailedLogIn.objects.count() == 1


def test_the_brake_of_the_api_is_on_here_too(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS):
        Client().post(LOG_IN, {"username": "alice", "password": "wrong"})
    response = Client().post(LOG_IN, {"username": "alice", "password": "correct horse"})
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert "try again in" in response.content.decode()


def test_empty_fields_are_no_attempt(alice: User) -> None:
    assert Client().post(LOG_IN, {"username": "alice", "password": ""}).status_code == 200
    assert not FailedLogIn.objects.exists()


def test_a_name_with_a_nul_is_refused_and_not_looked_up() -> None:
    assert Client().post(LOG_IN, {"username": "a\x00", "password": "x"}).status_code == 200


def test_log_out_takes_a_post(portal: Client) -> None:
    assert portal.get("/accounts/logout/").status_code == 405
    assert portal.post("/accounts/logout/")["Location"] == LOG_IN
    assert portal.get("/jobs/").status_code == 302


def test_a_suspended_user_is_out_at_once(portal: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert portal.get("/jobs/").status_code == 302


def test_the_head_tells_who_has_several_groups_or_none(group: Group, client_of: ClientOf) -> None:
    several = make_user(groups=[group, make_group()])
    assert "member of 2 groups" in client_of(several).get("/jobs/").content.decode()
    assert "in no group" in client_of(make_user()).get("/jobs/").content.decode()


def test_only_staff_is_shown_the_way_to_the_administration(portal: Client, client_of: ClientOf) -> None:
    assert "Administration" not in portal.get("/jobs/").content.decode()
    assert "Administration" in client_of(make_user(staff=True)).get("/jobs/").content.decode()


def test_pages_carry_a_strict_policy_and_hold_nothing_that_it_forbids(portal: Client) -> None:
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


def test_a_page_that_is_not_there_is_told_in_our_words(portal: Client) -> None:
    response = portal.get("/nowhere/")
    assert response.status_code == 404
    assert "There is no such page" in response.content.decode()


def test_a_form_without_its_token_is_refused_in_our_words(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    for address in ("/jobs/actions/", "/jobs/submit/", "/jobs/submit/jdl/", "/jobs/1/actions/"):
        response = browser.post(address, {"action": "kill", "executable": "x", "jdl": "x"})
        assert response.status_code == 403
        assert "This form is too old" in response.content.decode()
