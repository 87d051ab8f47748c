"""Users and groups that are read by SQL are those that the ORM reads."""

from datetime import timedelta

import pytest
from django.forms.models import model_to_dict

from tests import factories
from tests.factories import NOW
from wms.accounts import queries, sql
from wms.accounts.models import Group, Invitation, User

pytestmark = pytest.mark.django_db


def test_the_groups_of_a_user_are_read_with_all_of_their_columns() -> None:
    groups = [factories.make_group(name=name) for name in ("b", "a", "c")]
    alice = factories.make_user(groups=groups[:2])
    read = sql.groups_of(alice.pk)
    assert [group.name for group in read] == ["a", "b"]
    for group in read:
        expected = Group.objects.select_related("vo").get(pk=group.pk)
        assert (model_to_dict(group), group.pk) == (model_to_dict(expected), expected.pk)
        assert (model_to_dict(group.vo), group.vo.pk) == (model_to_dict(expected.vo), expected.vo.pk)


def test_the_user_of_a_token_is_read_with_all_columns() -> None:
    alice = factories.make_user(groups=[factories.make_group()])
    bearer = queries.bearer_of(factories.make_token(alice), now=NOW)
    expected = User.objects.get(pk=alice.pk)
    assert bearer is not None
    assert vars(bearer.user) | {"_state": None} == vars(expected) | {"_state": None}


def test_the_standing_of_a_user_is_that_of_the_orm() -> None:
    shared, own = factories.make_group(shares_jobs=True), factories.make_group()
    managed = factories.make_vo()
    alice = factories.make_user(groups=[shared, own], manages=[managed])
    stranger = factories.make_user(groups=[factories.make_group()], manages=[factories.make_vo()])
    other = factories.make_group()
    senders = [
        factories.make_user(operator=True),
        factories.make_user(superuser=True),
        factories.make_user(manages=[other.vo]),
        factories.make_user(),
        stranger,
        suspended := factories.make_user(operator=True),
        None,
    ]
    User.objects.filter(pk=suspended.pk).update(is_active=False)
    later = NOW + timedelta(days=1)
    for sender in senders:
        for expires_at, declined_at in ((later, None), (NOW, None), (later, NOW)):
            for username in (alice.username, stranger.username):
                Invitation.objects.create(
                    group=factories.make_group(vo=other.vo),
                    username=username,
                    invited_by=sender,
                    created_at=NOW,
                    expires_at=expires_at,
                    declined_at=declined_at,
                )
    read = queries.standings_of(alice, now=NOW)
    invited = Invitation.objects.open_to(alice, now=NOW).values_list("pk", "group__vo_id")
    assert len(invited) == 3
    assert sorted(read) == sorted(
        [
            ("group", shared.pk, shared.vo_id, True),
            ("group", own.pk, own.vo_id, False),
            ("vo", managed.pk, managed.pk, False),
            *(("invitation", pk, vo_id, False) for pk, vo_id in invited),
        ]
    )
