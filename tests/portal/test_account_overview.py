"""The overview of the user's own account: default group, and mail about submissions."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from tests.factories import make_group, make_token, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail(settings: Settings) -> None:
    settings.WMS_EMAIL_URL = "smtp://localhost"


@pytest.fixture
def alice(alice: User) -> User:
    alice.email = "alice@example.org"
    alice.save()
    return alice


def text_of(client: Client) -> str:
    response = client.get("/accounts/")
    assert response.status_code == 200
    return response.content.decode()


def test_the_overview_lists_the_settings_of_the_account(portal: Client, alice: User, mail: None) -> None:
    make_token(alice)
    page = text_of(portal)
    for said in ("alice@example.org", "lhcb_user", "1 valid token.", "None: your password alone logs in."):
        assert said in page
    assert 'value="never" id="id_when_0" required checked' in page


def test_an_empty_account_page_says_what_to_do(client_of: ClientOf) -> None:
    page = text_of(client_of(make_user()))
    for said in ("You are in no group.", "You have none: you cannot log in by password.", "You have none."):
        assert said in page


@pytest.mark.parametrize("choice", ["ended", "failed", "never"])
def test_a_user_chooses_when_to_get_mail(portal: Client, alice: User, mail: None, choice: str) -> None:
    response = portal.post("/accounts/mail/", {"when": choice}, follow=True)
    assert "Your choice is stored." in response.content.decode()
    assert User.objects.get(pk=alice.pk).mail_when == choice
    position = ["never", "ended", "failed"].index(choice)
    assert f'value="{choice}" id="id_when_{position}" required checked' in text_of(portal)


@pytest.mark.parametrize("form", [{"when": "always"}, {}, {"when": ""}])
def test_a_wrong_choice_changes_nothing(portal: Client, alice: User, mail: None, form: dict[str, str]) -> None:
    response = portal.post("/accounts/mail/", form)
    assert response.status_code == 400
    assert 'class="errorlist"' in response.content.decode()
    assert User.objects.get(pk=alice.pk).mail_when == "never"


@pytest.mark.parametrize("email", ["", "alice", "alice@example.org\nBcc: all@example.org"])
def test_without_a_valid_address_no_mail_can_be_chosen(portal: Client, alice: User, mail: None, email: str) -> None:
    User.objects.filter(pk=alice.pk).update(email=email)
    page = text_of(portal)
    assert "Your account has no valid e-mail address" in page
    assert 'name="when"' not in page
    assert portal.post("/accounts/mail/", {"when": "ended"}).status_code == 400
    assert User.objects.get(pk=alice.pk).mail_when == "never"


def test_the_page_says_that_there_is_no_mail_server(portal: Client) -> None:
    page = text_of(portal)
    assert "This server sends no mail" in page
    assert 'name="when"' not in page


def test_no_form_of_the_account_changes_the_address(portal: Client, alice: User, mail: None) -> None:
    portal.post("/accounts/mail/", {"when": "ended", "email": "eve@example.org"})
    assert User.objects.get(pk=alice.pk).email == "alice@example.org"


def test_a_member_chooses_the_default_group(portal: Client, alice: User, vo: VO, group: Group) -> None:
    other = make_group(name="lhcb_prod", vo=vo)
    alice.memberships.create(group=other)
    assert "You have no default group" in text_of(portal)
    response = portal.post(f"/accounts/groups/{other.pk}/default/", follow=True)
    assert "You act in lhcb_prod where you name no group." in response.content.decode()
    assert User.objects.get(pk=alice.pk).default_group == other
    assert "acting in lhcb_prod" in text_of(portal)
    page = portal.get("/accounts/groups/").content.decode()
    assert f"/accounts/groups/{other.pk}/default/" not in page
    assert f"/accounts/groups/{group.pk}/default/" in page


def test_only_members_choose_a_group_as_default(portal: Client, alice: User, vo: VO) -> None:
    stranger = make_group(name="lhcb_prod", vo=vo)
    assert portal.post(f"/accounts/groups/{stranger.pk}/default/").status_code == 404
    assert portal.post("/accounts/groups/9999/default/").status_code == 404
    assert portal.get(f"/accounts/groups/{stranger.pk}/default/").status_code == 405
    assert User.objects.get(pk=alice.pk).default_group is None


def test_names_of_users_are_escaped(client_of: ClientOf, group: Group) -> None:
    user = make_user(groups=[group])
    user.first_name = "<b>Bob</b>"
    user.save()
    page = text_of(client_of(user))
    assert "&lt;b&gt;Bob&lt;/b&gt;" in page
    assert "<b>Bob" not in page


@pytest.mark.parametrize("address", ["/accounts/", "/accounts/mail/", "/accounts/groups/1/default/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_page_requires_a_log_in(address: str, method: str) -> None:
    response = getattr(Client(), method)(address)
    assert response.status_code in {302, 405}
    if response.status_code == 302:
        assert response["Location"].startswith("/accounts/login/")


def test_the_overview_takes_as_many_statements_for_one_token_as_for_many(portal: Client, alice: User, vo: VO) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(portal)
        return len(captured)

    make_token(alice)
    few = statements()
    for number in range(30):
        make_token(alice)
        alice.memberships.create(group=make_group(name=f"lhcb_{number}", vo=vo))
    assert statements() == few
