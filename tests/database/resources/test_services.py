"""States of resources, tokens of sites, and encrypted secrets."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from resources.domain.enums import ResourceState, SiteTokenPurpose
from resources.models import Queue, Site, SiteToken
from resources.queries import visible_sites
from resources.services.site_tokens import TokenTakenError, issue_site_token, set_site_token
from resources.services.states import StateError, set_state
from tests.factories import NOW, make_ce, make_queue, make_site, make_user
from wms.kernel.secrets import UndecipherableError, decrypt, encrypt

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize("state", [ResourceState.BANNED, ResourceState.DRAINING])
def test_a_state_is_set_with_its_reason_its_end_and_who_did_it(state: ResourceState) -> None:
    operator = make_user()
    for level in (make_site(), make_ce(), make_queue()):
        set_state(level, state=state, reason=" power cut ", until=LATER, by=operator, now=NOW)
        level.refresh_from_db()
        assert (level.state, level.state_reason, level.state_until) == (state, "power cut", LATER)
        assert (level.state_changed_by, level.state_changed_at) == (operator, NOW)


def test_a_ban_is_lifted_without_a_reason() -> None:
    queue = make_queue(state=ResourceState.BANNED)
    set_state(queue, state=ResourceState.ACTIVE, reason="", until=None, by=None, now=NOW)
    assert Queue.objects.get().state == ResourceState.ACTIVE


@pytest.mark.parametrize(
    ("state", "reason", "until_h", "field"),
    [
        (ResourceState.BANNED, " ", None, "reason"),
        (ResourceState.DRAINING, "", None, "reason"),
        (ResourceState.BANNED, "x" * 256, None, "reason"),
        (ResourceState.BANNED, "x", 0, "until"),
        (ResourceState.ACTIVE, "", 1, "until"),
    ],
)
def test_a_state_without_what_belongs_to_it_is_refused(
    state: ResourceState, reason: str, until_h: int | None, field: str
) -> None:
    site = make_site()
    until = None if until_h is None else NOW + timedelta(hours=until_h)
    with pytest.raises(StateError) as refusal:
        set_state(site, state=state, reason=reason, until=until, by=None, now=NOW)
    assert list(refusal.value.errors) == [field]
    assert Site.objects.get().state == ResourceState.ACTIVE


def test_an_issued_token_is_recognised_and_only_its_digest_is_kept() -> None:
    site = make_site()
    token = issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=NOW)
    found = visible_sites.site_token(token)
    assert found is not None
    assert (found.site, found.purpose) == (site, SiteTokenPurpose.ADVERTISE)
    assert token.startswith("wmss_")
    assert token.encode() not in bytes(SiteToken.objects.get().digest)
    assert visible_sites.site_token(token + "x") is None


def test_a_revoked_token_is_unknown() -> None:
    token = issue_site_token(make_site(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    SiteToken.objects.update(revoked_at=NOW)
    assert visible_sites.site_token(token) is None


def test_a_token_of_another_site_or_purpose_is_refused() -> None:
    site = make_site()
    set_site_token(site, purpose=SiteTokenPurpose.REGISTER, plain="t", now=NOW)
    set_site_token(site, purpose=SiteTokenPurpose.REGISTER, plain="t", now=NOW)
    with pytest.raises(TokenTakenError):
        set_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, plain="t", now=NOW)
    with pytest.raises(TokenTakenError):
        set_site_token(make_site(), purpose=SiteTokenPurpose.REGISTER, plain="t", now=NOW)
    assert SiteToken.objects.count() == 1


def test_the_command_prints_a_token() -> None:
    make_site(name="CERN")
    out = StringIO()
    call_command("site_token", "CERN", "--for", "register", stdout=out)
    found = visible_sites.site_token(out.getvalue().strip())
    assert found is not None
    assert found.purpose == SiteTokenPurpose.REGISTER


def test_the_command_names_the_nearest_site() -> None:
    make_site(name="CERN")
    with pytest.raises(CommandError, match=r'There is no site "CERM". Did you mean "CERN"\?'):
        call_command("site_token", "CERM", "--for", "register")
    assert not SiteToken.objects.exists()


def test_secrets_are_read_again_also_after_the_key_was_changed(settings: Settings) -> None:
    encrypted = encrypt("hunter2")
    assert b"hunter2" not in encrypted
    assert decrypt(memoryview(encrypted)) == "hunter2"
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of at least fifty characters, as it should be"
    assert decrypt(encrypted) == "hunter2"
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(UndecipherableError):
        decrypt(encrypted)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parameters", {"Memory": {"min": 1}}),
        ("parameters", {"Memory": 1, "memory": 2}),
        ("parameters", [1]),
        ("vo_parameters", {"lhcb": 3}),
        ("vo_parameters", {"lhcb": {"Memory": None}}),
        ("vo_parameters", [1]),
    ],
)
def test_a_form_refuses_incomparable_parameters(field: str, value: object) -> None:
    site = make_site()
    setattr(site, field, value)
    with pytest.raises(ValidationError) as refusal:
        site.full_clean()
    assert list(refusal.value.message_dict) == [field]
