"""Log-in by OpenID Connect in a browser: people, groups by claims, and the waiting room."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from tests import oidc
from tests.factories import make_group, make_user, make_vo
from tests.oidc import ID, SUBJECT, ScriptedProvider
from tests.portal.conftest import ClientOf
from tests.second_factors import code_of, make_app
from wms.accounts import queries
from wms.accounts.domain import MAX_FAILURES_OF_ADDRESS_FOR_OTHERS, SecurityEventKind
from wms.accounts.models import VO, FailedLogIn, Group, Invitation, Membership, SecurityEvent, User
from wms.accounts.services import accept, people

pytestmark = pytest.mark.django_db

LOG_IN = "/accounts/login/"
GROUPS = {"wlcg.groups": {"/lhcb": ["lhcb_user"], "/lhcb/production": ["lhcb_prod", "no_such_group"]}}


@pytest.fixture
def provider(settings: Settings, group: Group) -> Iterator[ScriptedProvider]:
    with oidc.scripted_provider(settings, groups=GROUPS) as provider:
        provider.claims = {"preferred_username": "alice", "given_name": "Alice", "family_name": "Liddell"}
        yield provider


@pytest.fixture
def production(vo: VO) -> Group:
    return make_group(name="lhcb_prod", vo=vo)


def kinds() -> set[str]:
    return set(SecurityEvent.objects.values_list("kind", flat=True))


def groups_of(user: User) -> list[str]:
    return [group.name for group in queries.groups_of(user)]


def person() -> User:
    user: User = SocialAccount.objects.get(uid=SUBJECT).user
    return user


# ---- nothing without a provider --------------------------------------------------------------------------------------


def test_without_a_provider_oidc_is_neither_visible_nor_reachable(portal: Client) -> None:
    assert b"institute" not in Client().get(LOG_IN).content
    assert b"nstitute" not in portal.get("/accounts/").content
    account = SocialAccount.objects.create(user=make_user(), provider="https://a.example", uid="a")
    for browser in (Client(), portal):
        assert browser.post(f"/accounts/oidc/{ID}/").status_code == 404
        assert browser.get(f"/accounts/oidc/{ID}/callback/?code=x&state=y").status_code == 404
    assert portal.post(f"/accounts/oidc/{ID}/connect/").status_code == 404
    assert portal.post(f"/accounts/connected/{account.pk}/disconnect/").status_code == 404
    assert portal.get("/people/waiting/").status_code == 404


# ---- a new person ----------------------------------------------------------------------------------------------------


def test_a_new_person_gets_an_account_of_their_own_and_waits(provider: ScriptedProvider) -> None:
    browser = Client()
    assert "Log in with CERN" in browser.get(LOG_IN).content.decode()
    response = oidc.log_in(browser)
    assert response.status_code == 302
    assert browser.get("/jobs/")["Location"] == "/accounts/waiting/"
    user = person()
    assert (user.username, user.get_full_name(), user.email) == ("alice@cern", "Alice Liddell", "")
    assert not user.has_usable_password()
    assert groups_of(user) == []
    page = browser.get("/accounts/waiting/").content.decode()
    assert "A manager of your VO, or an operator of this server, admits you" in page
    assert {SecurityEventKind.USER_ADDED, SecurityEventKind.LOG_IN_ACCEPTED} <= kinds()
    assert not FailedLogIn.objects.exists()


def test_the_waiting_room_names_the_vos_that_the_setting_names(settings: Settings, group: Group) -> None:
    with oidc.scripted_provider(settings, vos=["lhcb", "atlas"]):
        browser = Client()
        oidc.log_in(browser)
        assert "A manager of atlas or lhcb admits you" in browser.get("/accounts/waiting/").content.decode()


def test_a_returning_person_gets_the_same_account(provider: ScriptedProvider) -> None:
    oidc.log_in(Client())
    provider.claims["preferred_username"] = "somebody-else"
    oidc.log_in(Client())
    assert User.objects.filter(username__endswith="@cern").count() == 1


def test_an_email_is_stored_only_if_the_provider_has_verified_it(provider: ScriptedProvider) -> None:
    provider.claims |= {"email": "alice@example.org", "email_verified": True}
    oidc.log_in(Client())
    assert person().email == "alice@example.org"
    provider.subject, provider.claims["email_verified"] = "another", "true"
    oidc.log_in(Client())
    assert SocialAccount.objects.get(uid="another").user.email == ""


def test_the_log_in_redirects_to_the_wanted_page_of_this_server_only(provider: ScriptedProvider) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    assert oidc.log_in(Client(), next_url="/jobs/submit/")["Location"] == "/jobs/submit/"
    assert oidc.log_in(Client(), next_url="https://evil.example/")["Location"] == "/"


# ---- managers --------------------------------------------------------------------------------------------------------


def test_a_manager_admits_a_person_to_a_group_and_the_person_can_work(
    provider: ScriptedProvider, vo: VO, group: Group, client_of: ClientOf
) -> None:
    browser = Client()
    oidc.log_in(browser)
    manager = client_of(make_user(username="mona", manages=[vo]))
    assert "1 person waits to be admitted." in manager.get("/jobs/").content.decode()
    listed = manager.get("/people/waiting/").content.decode()
    assert "alice@cern" in listed
    # Not beside the list itself, where a number of some seconds ago would contradict it.
    assert "waits to be admitted." not in listed
    manager.post(f"/people/{person().pk}/admit/", {"group": group.pk})
    assert groups_of(person()) == ["lhcb_user"]
    assert Membership.objects.get(user=person()).confirmed_at is None
    assert browser.get("/jobs/").status_code == 200
    assert SecurityEvent.objects.get(kind=SecurityEventKind.PERSON_ADMITTED).target == "user alice@cern"
    assert "Nobody waits" in manager.get("/people/waiting/").content.decode()
    # Without any group, who was admitted does not wait again.
    Membership.objects.all().delete()
    assert browser.get("/jobs/").status_code == 200


def test_a_refused_person_cannot_log_in(provider: ScriptedProvider, vo: VO, client_of: ClientOf) -> None:
    browser = Client()
    oidc.log_in(browser)
    manager = client_of(make_user(username="mona", manages=[vo]))
    manager.post(f"/people/{person().pk}/refuse/")
    assert browser.get("/accounts/waiting/").status_code == 302  # the session has ended
    response = oidc.log_in(Client())
    assert response["Location"] == LOG_IN
    assert SecurityEventKind.PERSON_REFUSED in kinds()
    assert SecurityEvent.objects.filter(kind=SecurityEventKind.LOG_IN_REFUSED).exists()


def test_only_managers_of_the_vo_see_and_admit_waiting_people(
    settings: Settings, vo: VO, group: Group, client_of: ClientOf
) -> None:
    with oidc.scripted_provider(settings, vos=["lhcb"]):
        oidc.log_in(Client())
    other = make_vo(name="atlas")
    their_group = make_group(name="atlas_user", vo=other)
    stranger = client_of(make_user(manages=[other]))
    assert "Nobody waits" in stranger.get("/people/waiting/").content.decode()
    assert "waits to be admitted" not in stranger.get("/jobs/").content.decode()
    own_manager = client_of(make_user(manages=[vo]))
    colleague = client_of(make_user(groups=[group]))
    assert colleague.get("/people/waiting/").status_code == 404
    for browser, group_id in ((stranger, their_group.pk), (stranger, group.pk), (colleague, group.pk)):
        assert browser.post(f"/people/{person().pk}/admit/", {"group": group_id}).status_code == 404
        assert browser.post(f"/people/{person().pk}/refuse/").status_code == 404
    # Nor to a group of another VO, nor a user who does not wait.
    assert own_manager.post(f"/people/{person().pk}/admit/", {"group": their_group.pk}).status_code == 404
    assert own_manager.post(f"/people/{make_user().pk}/refuse/").status_code == 404
    assert people.is_waiting(person(), now=timezone.now())


def test_the_list_of_people_needs_the_same_queries_for_one_and_thirty(
    provider: ScriptedProvider, vo: VO, client_of: ClientOf
) -> None:
    manager = client_of(make_user(manages=[vo]))

    def queries_with(count: int) -> int:
        for number in range(count):
            user = User.objects.create(username=f"p{count}-{number}@cern", waits_since=timezone.now())
            SocialAccount.objects.create(user=user, provider=provider.url, uid=user.username)
        manager.get("/people/waiting/")
        with CaptureQueriesContext(connection) as asked:
            assert manager.get("/people/waiting/").status_code == 200
        return len(asked)

    assert queries_with(1) == queries_with(30)


# ---- groups by claims ------------------------------------------------------------------------------------------------


def test_claims_put_a_person_into_groups_at_once(provider: ScriptedProvider, production: Group) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb", "/lhcb/production", "/atlas"]
    browser = Client()
    oidc.log_in(browser)
    assert groups_of(person()) == ["lhcb_prod", "lhcb_user"]
    assert browser.get("/jobs/").status_code == 200
    page = browser.get("/accounts/groups/").content.decode()
    assert "by CERN, confirmed" in page
    assert Membership.objects.filter(confirmed_at__isnull=False).count() == 2


def test_claims_of_the_id_token_count_and_a_single_text_is_a_value(settings: Settings, group: Group) -> None:
    claim, value = "eduperson_entitlement", "urn:mace:egi.eu:group:lhcb:role=member#aai.egi.eu"
    with oidc.scripted_provider(settings, groups={claim: {value: ["lhcb_user"]}}) as provider:
        provider.id_token_claims = {claim: value}
        oidc.log_in(Client())
        assert groups_of(person()) == ["lhcb_user"]


def test_a_missing_claim_ends_its_membership_only(provider: ScriptedProvider, production: Group) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    oidc.log_in(Client())
    Membership.objects.create(user=person(), group=production)  # by a manager
    provider.claims["wlcg.groups"] = []
    oidc.log_in(Client())
    assert groups_of(person()) == ["lhcb_prod"]
    # What a manager gave stays given when a claim states it too, and when the claim is gone.
    provider.claims["wlcg.groups"] = ["/lhcb/production"]
    oidc.log_in(Client())
    provider.claims["wlcg.groups"] = []
    oidc.log_in(Client())
    assert groups_of(person()) == ["lhcb_prod"]


def test_a_membership_by_claim_lapses_even_before_the_task_has_run(
    provider: ScriptedProvider, settings: Settings, group: Group
) -> None:
    settings.WMS_OIDC_MEMBERSHIP_DAYS = 30
    provider.claims["wlcg.groups"] = ["/lhcb"]
    browser = Client()
    oidc.log_in(browser)
    user, now = person(), timezone.now()
    membership = Membership.objects.filter(user=user)
    membership.update(confirmed_at=now - timedelta(days=29))
    assert people.remove_lapsed_memberships(now=now) == 0
    pair = {"user_ids": [user.pk], "group_ids": [group.pk]}
    assert queries.active_memberships(**pair)
    membership.update(confirmed_at=now - timedelta(days=30))
    assert not queries.active_memberships(**pair)
    assert queries.standings_of(user, now=now) == []
    assert browser.get("/jobs/")["Location"] == "/accounts/waiting/"
    assert people.remove_lapsed_memberships(now=now) == 1
    assert not membership.exists()
    assert "lapsed" in SecurityEvent.objects.filter(kind=SecurityEventKind.RIGHTS_CHANGED).latest("pk").facts
    oidc.log_in(Client())
    assert groups_of(user) == ["lhcb_user"]
    assert browser.get("/jobs/").status_code == 200


def test_an_accepted_invitation_makes_a_membership_by_claim_a_lasting_one(
    provider: ScriptedProvider, group: Group
) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    oidc.log_in(Client())
    now = timezone.now()
    invitation = Invitation.objects.create(
        group=group,
        username=person().username,
        invited_by=make_user(operator=True),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )
    accept(invitation.pk, by=person(), now=now)
    assert Membership.objects.get().confirmed_at is None


# ---- the account page ------------------------------------------------------------------------------------------------


def test_a_user_connects_an_account_logs_in_by_it_and_disconnects_it(
    provider: ScriptedProvider, portal: Client, alice: User
) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb/production"]
    make_group(name="lhcb_prod")
    assert "Connect" in portal.get("/accounts/").content.decode()
    asked = portal.post(f"/accounts/oidc/{ID}/connect/")
    assert asked["Location"].startswith("/accounts/again/")  # the password first
    go_on = portal.post(asked["Location"], {"password": "correct horse"})
    back = portal.get(oidc.back_from(oidc.address_in(go_on.content)))
    assert back["Location"] == "/accounts/"
    assert "The account is connected" in portal.get("/accounts/").content.decode()
    assert groups_of(alice) == ["lhcb_prod", "lhcb_user"]
    browser = Client()
    assert oidc.log_in(browser)["Location"] == "/"
    assert b"alice" in browser.get("/accounts/").content
    assert not User.objects.filter(username="alice@cern").exists()
    account = SocialAccount.objects.get(user=alice)
    assert portal.post(f"/accounts/connected/{account.pk}/disconnect/")["Location"] == "/accounts/"
    assert groups_of(alice) == ["lhcb_user"]
    assert not SocialAccount.objects.exists()
    assert {SecurityEventKind.ACCOUNT_CONNECTED, SecurityEventKind.ACCOUNT_DISCONNECTED} <= kinds()


def test_an_account_is_connected_after_confirming_the_password(
    provider: ScriptedProvider, portal: Client, alice: User
) -> None:
    asked = portal.post(f"/accounts/oidc/{ID}/connect/")
    go_on = portal.post(asked["Location"], {"password": "correct horse"})
    session = portal.session
    for proof in session["account_authentication_methods"]:
        proof["at"] -= 3600  # so long the user was at the provider
    session.save()
    back = portal.get(oidc.back_from(oidc.address_in(go_on.content)))
    assert back["Location"] == "/accounts/again/"
    assert not SocialAccount.objects.exists()
    assert portal.post(back["Location"], {"password": "correct horse"})["Location"] == "/accounts/"
    assert SocialAccount.objects.get().user == alice


def test_without_a_password_the_last_account_cannot_be_disconnected(provider: ScriptedProvider) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    browser = Client()
    oidc.log_in(browser)
    account = SocialAccount.objects.get()
    browser.post(f"/accounts/connected/{account.pk}/disconnect/")
    assert "you could not log in any more" in browser.get("/accounts/").content.decode()
    assert SocialAccount.objects.exists()


# ---- as after a password ---------------------------------------------------------------------------------------------


def test_a_second_factor_is_required(provider: ScriptedProvider) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    oidc.log_in(Client())
    key = make_app(person())
    browser = Client()
    assert oidc.log_in(browser)["Location"].startswith("/accounts/login/code/")
    assert browser.get("/jobs/").status_code == 302
    assert browser.post("/accounts/login/code/", {"code": code_of(key)})["Location"] == "/"
    assert browser.get("/jobs/").status_code == 200


def test_a_suspension_between_provider_and_code_ends_the_log_in(provider: ScriptedProvider) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    oidc.log_in(Client())
    key = make_app(person())
    browser = Client()
    oidc.log_in(browser)
    User.objects.filter(pk=person().pk).update(is_active=False)
    User.objects.filter(pk=person().pk).update(is_active=True)
    assert browser.post("/accounts/login/code/", {"code": code_of(key)})["Location"] == LOG_IN
    assert browser.get("/jobs/").status_code == 302


def test_a_suspended_user_is_refused_and_loses_and_gains_nothing(provider: ScriptedProvider) -> None:
    provider.claims["wlcg.groups"] = ["/lhcb"]
    oidc.log_in(Client())
    User.objects.filter(pk=person().pk).update(is_active=False)
    browser = Client()
    assert oidc.log_in(browser)["Location"] == LOG_IN
    assert "suspended" in browser.get(LOG_IN).content.decode()
    assert browser.get("/jobs/").status_code == 302
    refusal = SecurityEvent.objects.get(kind=SecurityEventKind.LOG_IN_REFUSED)
    assert refusal.target == "user alice@cern"


def test_log_ins_by_a_provider_are_delayed_after_many_failures(provider: ScriptedProvider) -> None:
    FailedLogIn.objects.bulk_create(
        [
            FailedLogIn(name_digest=number.to_bytes(2), address="127.0.0.1", failed_at=timezone.now())
            for number in range(MAX_FAILURES_OF_ADDRESS_FOR_OTHERS + 4)  # for the longest delay
        ]
    )
    response = Client().post(f"/accounts/oidc/{ID}/")
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert provider.requests == []


def test_a_provider_that_does_not_answer_is_reported(settings: Settings) -> None:
    with oidc.scripted_provider(settings):
        pass
    browser = Client()
    assert browser.post(f"/accounts/oidc/{ID}/")["Location"] == LOG_IN
    assert "not possible at present" in browser.get(LOG_IN).content.decode()
