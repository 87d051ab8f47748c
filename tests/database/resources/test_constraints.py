"""Constraints of sites, computing elements, queues and storage: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable

import pytest

from resources.domain.enums import RequirementKind
from resources.models import Downtime, ReportedPlatform, SiteAdministrator
from tests.constraints import broken_constraint, change, insert_again
from tests.factories import NOW, make_ce, make_downtime, make_queue, make_requirement_definition, make_site, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        ("site_state_is_known", lambda: change(make_site(), state="closed")),
        ("ce_state_is_known", lambda: change(make_ce(), state="closed")),
        ("queue_state_is_known", lambda: change(make_queue(), state="closed")),
        ("ce_name_is_unique_at_its_site", lambda: insert_again(make_ce())),
        ("queue_name_is_unique_at_its_ce", lambda: insert_again(make_queue())),
        ("queue_required_tags_are_among_its_tags", lambda: change(make_queue(), required_tags=["gpu"])),
        ("queue_stalled_cpu_fraction_is_0_to_1", lambda: change(make_queue(), stalled_cpu_fraction=-0.1)),
        ("a_platform_is_reported_once_of_a_queue", lambda: insert_again(_reported_platform())),
        ("downtime_begins_before_it_ends", lambda: change(_downtime(), ends_at=NOW)),
        ("downtime_of_a_queue_names_its_ce", lambda: change(_downtime(), queue=make_queue().pk)),
        ("an_announced_downtime_is_there_once", lambda: insert_again(_announced())),
        ("user_administers_a_site_once", lambda: insert_again(_administrator())),
        ("requirement_name_is_unique_ignoring_case", lambda: _define("Network", "nETWORK")),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint


def _reported_platform() -> ReportedPlatform:
    return ReportedPlatform.objects.create(queue=make_queue(), platform="el9", seen_at=NOW)


def _downtime() -> Downtime:
    return make_downtime(make_site(), begins_at=NOW)


def _announced() -> Downtime:
    downtime = _downtime()
    downtime.source, downtime.external_id = "gocdb", "1"
    downtime.save()
    return downtime


def _administrator() -> SiteAdministrator:
    return SiteAdministrator.objects.create(site=make_site(), user=make_user())


def _define(*names: str) -> None:
    for name in names:
        make_requirement_definition(name=name, kind=RequirementKind.CAPACITY)
