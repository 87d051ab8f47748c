"""Users and groups that are read by SQL are those that the ORM reads."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.forms.models import model_to_dict
from django.test import Client

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


def test_a_session_is_read_with_all_columns_of_its_user() -> None:
    group = factories.make_group(shares_jobs=True)
    alice = factories.make_user(groups=[group])
    User.objects.filter(pk=alice.pk).update(
        last_login=NOW, waits_since=NOW + timedelta(microseconds=5), first_name='"é\\'
    )
    session = _session_of(alice)
    visit = sql.visit_of(session.session_key, user_id=alice.pk, now=NOW)
    assert visit is not None
    assert visit.user is not None
    expected = User.objects.get(pk=alice.pk)
    standings = [("group", group.pk, group.vo_id, True)]
    assert vars(visit.user) | {"_state": None} == vars(expected) | {"_state": None, "standings_read": standings}
    assert model_to_dict(visit.session) == model_to_dict(session)


def test_standings_that_were_read_with_a_session_are_used_once() -> None:
    alice = factories.make_user(groups=[factories.make_group()])
    visit = sql.visit_of(_session_of(alice).session_key, user_id=alice.pk, now=NOW)
    assert visit is not None
    assert visit.user is not None
    alice.memberships.all().delete()
    assert len(queries.standings_of(visit.user, now=NOW)) == 1
    assert queries.standings_of(visit.user, now=NOW) == []


@pytest.mark.parametrize("user_id", [None, 2**62])
def test_a_session_is_read_without_a_user(user_id: int | None) -> None:
    session = _session_of(factories.make_user())
    visit = sql.visit_of(session.session_key, user_id=user_id, now=NOW)
    assert visit is not None
    assert visit.user is None


def test_an_expired_session_is_none() -> None:
    alice = factories.make_user()
    session = _session_of(alice)
    assert sql.visit_of(session.session_key, user_id=alice.pk, now=session.expire_date) is None
    assert sql.visit_of("unknown", user_id=alice.pk, now=NOW) is None


def _session_of(user: User) -> Session:
    client = Client()
    client.force_login(user)
    Session.objects.filter(pk=client.session.session_key).update(expire_date=NOW + timedelta(hours=1))
    return Session.objects.get(pk=client.session.session_key)


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
