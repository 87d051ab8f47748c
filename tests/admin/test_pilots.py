"""The pages of pilots."""

import re

import pytest
from django.test import Client

from pilots.models import Pilot
from taskqueues.domain.conditions import CONDITIONS
from tests.admin.conftest import World, change, changelist
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
