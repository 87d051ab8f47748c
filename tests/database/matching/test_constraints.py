"""Constraints of leases: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable

import pytest

from matching.models import ExpirerRun
from tests.constraints import broken_constraint, insert_again
from tests.factories import NOW, make_match

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        ("job_has_at_most_one_open_match", lambda: make_match(job=make_match().job)),
        ("a_request_of_a_pilot_gets_its_leases_once", lambda: insert_again(make_match(ended_at=NOW))),
        ("expirer_has_one_row", lambda: ExpirerRun.objects.create(id=2, ran_at=NOW)),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint
