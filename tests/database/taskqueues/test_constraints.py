"""Constraints of task queues, queued jobs and limits: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable
from typing import Any

import pytest

from taskqueues.models import Limit, LimitHour
from tests.constraints import broken_constraint, change, insert_again
from tests.factories import NOW, make_queued_job, make_site, make_task_queue, make_vo

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        ("task_queue_priority_is_not_negative", lambda: make_task_queue(priority=-1.0)),
        (
            "task_queue_bans_no_site_beside_a_list_of_sites",
            lambda: make_task_queue(sites=["LCG.CERN.ch"], banned_sites=["LCG.PIC.es"]),
        ),
        ("user_priority_is_0_to_10", lambda: make_queued_job(user_priority=11)),
        ("limit_limits_something", lambda: change(_limit(), running=None)),
        ("limit_on_waiting_names_no_place", lambda: _limit(waiting=1, site=make_site())),
        # PostgreSQL has given the limit its parts.
        ("a_limit_has_each_slot_once", lambda: insert_again(_limit().slots.all()[0])),
        ("a_limit_has_each_hour_once", lambda: insert_again(_hour())),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("a_job_that_is_held_back_says_until_when", {"is_held_back": True}),
        ("a_job_that_is_held_back_says_until_when", {"not_before": NOW}),
        ("a_place_is_avoided_until_some_time", {"is_held_back": True, "not_before": NOW, "avoided_until": NOW}),
        ("a_place_is_avoided_until_some_time", {"avoided_queue_ids": [1]}),
        ("a_place_is_avoided_until_some_time", {"avoided_host": "node1"}),
    ],
)
def test_the_database_refuses_waiting_jobs(constraint: str, fields: dict[str, object]) -> None:
    assert broken_constraint(lambda: change(make_queued_job(), **fields)) == constraint


def _limit(**fields: Any) -> Limit:
    return Limit.objects.create(vo=make_vo(), **{"running": 1, **fields})


def _hour() -> LimitHour:
    return LimitHour.objects.create(limit=_limit(), began_at=NOW, cpu_s=1.0)
