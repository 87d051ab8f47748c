"""Constraints of VOs, groups, users and their credentials: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.constraints import broken_constraint, change, insert_again
from tests.factories import NOW, make_group, make_token, make_user, make_vo
from wms.accounts.models import VO, ApiToken, Invitation, Membership, User

pytestmark = pytest.mark.django_db


def test_a_vo_pause_has_a_reason() -> None:
    paused = VO.objects.filter(pk=make_vo().pk)
    assert broken_constraint(lambda: paused.update(paused_until=NOW)) == "vo_pause_has_a_reason"
    paused.update(paused_until=NOW, pause_reason="full")
    assert broken_constraint(lambda: paused.update(pause_reason="")) == "vo_pause_has_a_reason"


@pytest.mark.parametrize("fraction", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_vo_any_segment_fraction_is_0_to_1(fraction: float) -> None:
    assert broken_constraint(lambda: make_vo(any_segment_fraction=fraction)) == "vo_any_segment_fraction_is_0_to_1"


@pytest.mark.parametrize("fraction", [0.0, 0.1, 1.0])
def test_any_fraction_from_0_to_1_is_stored(fraction: float) -> None:
    assert make_vo(any_segment_fraction=fraction).any_segment_fraction == fraction


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        ("vo_default_setup_is_one_of_its_setups", lambda: change(make_vo(), setups=["Certification"])),
        ("vo_stalled_cpu_fraction_is_0_to_1", lambda: change(make_vo(), stalled_cpu_fraction=1.5)),
        ("group_priority_is_finite_and_not_negative", lambda: make_group(priority=-1.0)),
        ("group_priority_is_finite_and_not_negative", lambda: make_group(priority=float("inf"))),
        ("group_priority_is_finite_and_not_negative", lambda: make_group(priority=float("nan"))),
        ("user_is_member_of_a_group_once", lambda: insert_again(Membership.objects.get(user=_member()))),
        (
            "membership_confirmed_at_set_iff_by_claim",
            lambda: change(Membership.objects.get(user=_member()), confirmed_at=NOW),
        ),
        ("name_is_invited_to_a_group_once", lambda: insert_again(_invitation())),
        ("user_mail_when_is_known", lambda: change(make_user(), mail_when="always")),
        ("api_token_scope_is_known", lambda: change(_token(), scope="everything")),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint


def _member() -> User:
    return make_user(groups=[make_group()])


def _invitation() -> Invitation:
    return Invitation.objects.create(
        group=make_group(), username="alice", created_at=NOW, expires_at=NOW + timedelta(days=30)
    )


def _token() -> ApiToken:
    make_token(make_user())
    return ApiToken.objects.get()
