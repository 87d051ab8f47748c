"""DELETE in a dry run: the same checks and answers, and no change."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from taskqueues.models import Limit
from tests.api.administration.conftest import Administration, client_of
from wms.accounts.models import VO, Membership, SecurityEvent, User

pytestmark = pytest.mark.django_db

OF: dict[str, Callable[[Administration], str]] = {
    "limit": lambda rows: f"limits/{rows.own.limit.pk}/",
    "member": lambda rows: f"groups/{rows.own.group}/members/{rows.own.member}/",
    "suspension": lambda rows: f"users/{rows.own.member}/suspension/",
    "pause": lambda rows: f"vos/{rows.own.vo}/pause/",
}


@pytest.fixture
def rows(administration: Administration) -> Administration:
    """Return the rows, of which the member is suspended and the VO paused."""
    until = timezone.now() + timedelta(hours=1)
    VO.objects.filter(pk=administration.own.vo.pk).update(paused_until=until, pause_reason="storage is moved")
    User.objects.filter(pk=administration.own.member.pk).update(is_active=False)
    return administration


def is_there(rows: Administration) -> list[bool]:
    return [
        Limit.objects.filter(pk=rows.own.limit.pk).exists(),
        Membership.objects.filter(user=rows.own.member, group=rows.own.group).exists(),
        not User.objects.get(pk=rows.own.member.pk).is_active,
        VO.objects.get(pk=rows.own.vo.pk).paused_until is not None,
    ]


@pytest.mark.parametrize("of", OF)
def test_a_dry_run_deletes_and_records_nothing(rows: Administration, of: str) -> None:
    manager = rows.manager
    before = SecurityEvent.objects.count()
    address = f"/api/v1/{OF[of](rows)}"
    assert manager.delete(f"{address}?dry_run=true").status_code == 204
    assert (is_there(rows), SecurityEvent.objects.count()) == ([True] * 4, before)
    assert manager.delete(f"{address}?dry_run=maybe").json()["code"] == "invalid_input"
    assert manager.delete(address).status_code == 204
    assert is_there(rows).count(False) == 1


@pytest.mark.parametrize("of", OF)
def test_a_dry_run_is_refused_to_whom_the_deletion_is(rows: Administration, of: str) -> None:
    stranger = client_of(User.objects.get(username="atlas_member"))
    address = f"/api/v1/{OF[of](rows)}"
    refused = [stranger.delete(f"{address}{query}").status_code for query in ("", "?dry_run=true")]
    assert refused[0] == refused[1]
    assert refused[0] in {403, 404}
    assert is_there(rows) == [True] * 4
