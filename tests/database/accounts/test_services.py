"""The group in which a user acts, tokens, and the command that prints one."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.factories import NOW, make_group, make_token, make_user
from wms.accounts import queries, services
from wms.accounts.models import ApiToken, Membership, User

pytestmark = pytest.mark.django_db


def test_the_named_group_is_used() -> None:
    users, production = make_group(name="lhcb_user"), make_group(name="lhcb_prod")
    alice = make_user(groups=[users, production], default_group=users)
    assert services.acting_group(alice, "lhcb_prod") == production


def test_without_a_named_group_the_default_group_is_used() -> None:
    users, production = make_group(), make_group()
    assert services.acting_group(make_user(groups=[users, production], default_group=production), None) == production


def test_without_a_default_the_only_group_is_used() -> None:
    group = make_group()
    assert services.acting_group(make_user(groups=[group]), None) == group


def test_with_several_groups_and_no_default_the_group_must_be_named() -> None:
    alice = make_user(groups=[make_group(name="lhcb_user"), make_group(name="lhcb_prod")])
    with pytest.raises(services.GroupNeededError) as refusal:
        services.acting_group(alice, None)
    assert refusal.value.errors == {"group": ["Name the group to act in, one of lhcb_prod, lhcb_user."]}


def test_a_default_group_that_the_user_left_is_ignored() -> None:
    left, users = make_group(), make_group()
    alice = make_user(groups=[left, users], default_group=left)
    Membership.objects.filter(group=left).delete()
    assert services.acting_group(alice, None) == users


@pytest.mark.parametrize("name", [None, "lhcb_user", ""])
def test_a_user_without_groups_is_refused(name: str | None) -> None:
    make_group(name="lhcb_user")
    with pytest.raises(services.GroupNeededError) as refusal:
        services.acting_group(make_user(), name)
    assert list(refusal.value.errors) == ["group"]


def test_a_misspelt_group_is_refused_with_the_nearest_own_group() -> None:
    make_group(name="lhcb_usr")  # nearer, but not alice's
    alice = make_user(groups=[make_group(name="lhcb_user"), make_group(name="lhcb_prod")])
    with pytest.raises(services.NotAMemberError) as refusal:
        services.acting_group(alice, "lhcb_usr")
    assert refusal.value.errors == {"group": ['You are not a member of a group "lhcb_usr". Did you mean "lhcb_user"?']}


def test_a_strangers_group_is_refused_like_one_that_does_not_exist() -> None:
    make_group(name="zz")
    alice = make_user(groups=[make_group(name="lhcb_user")])
    refusals = []
    for name in ("zz", "yy"):
        with pytest.raises(services.NotAMemberError) as refusal:
            services.acting_group(alice, name)
        refusals.append(refusal.value.detail.replace(name, "…"))
    assert refusals == ['You are not a member of a group "…". Your groups: lhcb_user.'] * 2


@pytest.mark.parametrize("operator", [True, False])
def test_not_even_an_operator_acts_in_a_group_without_being_its_member(operator: bool) -> None:
    make_group(name="lhcb_user")
    user = make_user(groups=[make_group()], operator=operator)
    with pytest.raises(services.NotAMemberError):
        services.acting_group(user, "lhcb_user")


def test_a_suspended_user_is_issued_no_token() -> None:
    with pytest.raises(services.SuspendedError):
        services.issue_token(make_user(suspended=True), now=NOW)
    assert not ApiToken.objects.exists()


def test_a_token_ends_to_the_second() -> None:
    alice = make_user()
    token = make_token(alice, expires_at=NOW)
    assert queries.bearer_of(token, now=NOW - timedelta(microseconds=1)) is not None
    assert queries.bearer_of(token, now=NOW) is None


def test_issuing_a_token_removes_those_that_have_expired() -> None:
    alice, bob = make_user(), make_user()
    for user in (alice, bob):
        make_token(user, expires_at=NOW)
    lasting = make_token(alice, expires_at=NOW + timedelta(seconds=1))
    services.issue_token(alice, now=NOW)
    assert ApiToken.objects.filter(user=alice).count() == 2
    assert queries.bearer_of(lasting, now=NOW) is not None
    assert ApiToken.objects.filter(user=bob).count() == 1


def test_revoking_twice_keeps_the_first_time() -> None:
    make_token(make_user())
    token = ApiToken.objects.get()
    services.revoke_token(token_id=token.pk, now=NOW)
    services.revoke_token(token_id=token.pk, now=NOW + timedelta(hours=1))
    assert ApiToken.objects.get().revoked_at == NOW


def printed(*arguments: str) -> str:
    output = StringIO()
    call_command("token", *arguments, stdout=output)
    return output.getvalue()


def test_the_command_prints_only_a_valid_token() -> None:
    make_user(username="alice")
    token = printed("alice").removesuffix("\n")
    bearer = queries.bearer_of(token, now=timezone.now())
    assert bearer is not None
    assert bearer.user.username == "alice"


def test_the_command_suggests_the_nearest_user() -> None:
    make_user(username="alice")
    with pytest.raises(CommandError) as refusal:
        printed("alcie")
    assert str(refusal.value) == 'There is no user "alcie". Did you mean "alice"?'


def test_the_command_refuses_a_suspended_user() -> None:
    make_user(username="alice", suspended=True)
    with pytest.raises(CommandError, match=r"alice is suspended and gets no token\."):
        printed("alice")
    assert not ApiToken.objects.exists()
    assert User.objects.get().is_active is False
