"""Several log-ins by a provider at the same time."""

from functools import partial

import pytest
from allauth.socialaccount.models import SocialAccount
from django.utils import timezone

from tests.threads import at_once
from wms.accounts.models import User
from wms.accounts.oidc.configuration import OIDCProvider
from wms.accounts.oidc.identity import ProviderIdentity
from wms.accounts.services import people

pytestmark = pytest.mark.django_db(transaction=True)

PROVIDER = OIDCProvider(id="cern", name="CERN", issuer="https://auth.example.org", client_id="wms")


def come(subject: str) -> str:
    identity = ProviderIdentity(provider=PROVIDER, subject=subject, preferred_name="alice")
    account = people.log_in_by_provider(identity, address="", now=timezone.now())
    return str(account.user.username)


def test_a_new_person_who_logs_in_several_times_at_once_gets_one_account() -> None:
    assert at_once([partial(come, "one") for _ in range(4)]) == ["alice@cern"] * 4
    assert (SocialAccount.objects.count(), User.objects.count()) == (1, 1)


def test_new_people_of_the_same_name_get_names_of_their_own() -> None:
    names = at_once([partial(come, f"subject {number}") for number in range(4)])
    assert sorted(names) == ["alice-2@cern", "alice-3@cern", "alice-4@cern", "alice@cern"]
