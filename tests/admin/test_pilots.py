"""The pages of pilots."""

import re

import pytest
from django.test import Client

from pilots.models import Pilot
from taskqueues.domain.conditions import CONDITIONS
from tests.admin.conftest import World, act, change, changelist
from tests.factories import NOW

pytestmark = pytest.mark.django_db


def test_a_pilot_that_got_nothing_tells_when_and_after_which_condition_none_was_left(
    manager: Client, mine: World
) -> None:
    left = {name: 12 if number < 9 else 0 for number, name in enumerate(CONDITIONS)}
    Pilot.objects.update(nothing_at=NOW, nothing_left=left)
    page = manager.get(change(mine.pilot)).content.decode()
    assert "Got nothing at" in page
    assert re.findall(r"<div>(\w+: \d+)</div>", page) == [f"{name}: {count}" for name, count in left.items()]
    assert "June 1, 2026, noon" in page
    assert "June 1, 2026, noon" in manager.get(changelist(Pilot)).content.decode()


def test_a_pilot_that_never_got_nothing_says_so(manager: Client, mine: World) -> None:
    page = manager.get(change(mine.pilot)).content.decode()
    assert not re.findall(r"<div>(\w+: \d+)</div>", page)


def test_managers_revoke_the_credentials_of_their_own_pilots_only(manager: Client, mine: World, theirs: World) -> None:
    for pilot in (mine.pilot, theirs.pilot):
        act(manager, pilot, "revoke")
    mine.pilot.refresh_from_db()
    theirs.pilot.refresh_from_db()
    assert mine.pilot.revoked_at is not None
    assert theirs.pilot.revoked_at is None

    first = mine.pilot.revoked_at
    act(manager, mine.pilot, "revoke")
    mine.pilot.refresh_from_db()
    assert mine.pilot.revoked_at == first
