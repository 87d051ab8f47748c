"""Log-in by a provider that others have written (oidc-provider-mock), as a process of its own."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings

from tests import oidc
from tests.pace import within
from wms.accounts import queries
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db


@pytest.fixture
def issuer(settings: Settings) -> Iterator[str]:
    with oidc.mock_provider(settings, groups={"eduperson_entitlement": {"urn:x:lhcb": ["lhcb_user"]}}) as issuer:
        yield issuer


def log_in(browser: Client, *, subject: str, **form: str) -> str:
    """Log in as *subject* at the provider's page, and return where the browser is sent at last."""
    address = oidc.begin(browser)
    assert requests.get(address, timeout=within(30)).status_code == 200
    answer = requests.post(address, {"sub": subject, **form}, allow_redirects=False, timeout=within(30))
    back = urlsplit(answer.headers["Location"])
    return str(browser.get(f"{back.path}?{back.query}")["Location"])


def test_people_log_in_and_their_claims_give_groups(issuer: str, group: Group) -> None:
    claims = {"preferred_username": "alice", "given_name": "Alice", "eduperson_entitlement": ["urn:x:lhcb"]}
    requests.put(f"{issuer}/users/alice-1", json=claims, timeout=within(30)).raise_for_status()
    browser = Client()
    assert log_in(browser, subject="alice-1") == "/"
    user = SocialAccount.objects.get(provider=issuer, uid="alice-1").user
    assert (user.username, user.first_name) == ("alice@cern", "Alice")
    assert [group.name for group in queries.groups_of(user)] == ["lhcb_user"]
    assert browser.get("/jobs/").status_code == 200
    assert log_in(Client(), subject="alice-1") == "/"
    assert SocialAccount.objects.count() == 1


def test_a_refusal_at_the_provider_does_not_log_in(issuer: str, group: Group) -> None:
    browser = Client()
    assert log_in(browser, subject="alice-1", action="deny") == "/accounts/login/"
    assert not SocialAccount.objects.exists()
