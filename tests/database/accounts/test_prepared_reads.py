"""Users and groups that are read by SQL are those that the ORM reads."""

import pytest
from django.forms.models import model_to_dict

from tests import factories
from tests.factories import NOW
from wms.accounts import queries, sql
from wms.accounts.models import Group, User

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
