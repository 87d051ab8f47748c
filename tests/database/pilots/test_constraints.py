"""Constraints of pilots and directors: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable

import pytest

from pilots.domain.pilot import PilotStatus
from pilots.models import Director
from tests.constraints import broken_constraint, change
from tests.factories import NOW, make_pilot, make_user

pytestmark = pytest.mark.django_db

KNOWN_STATUS = "pilot_status_is_known_and_ended_at_set_iff_ended"


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        (KNOWN_STATUS, lambda: change(make_pilot(), status="Missing")),
        (KNOWN_STATUS, lambda: change(make_pilot(), ended_at=NOW)),
        (KNOWN_STATUS, lambda: change(make_pilot(status=PilotStatus.DONE), ended_at=None)),
        ("pilot_with_an_owner_has_a_group", lambda: make_pilot(owner=make_user())),
        (
            "director_private_fraction_is_0_to_1",
            lambda: Director.objects.create(name="sites", private_fraction=1.001),
        ),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint
