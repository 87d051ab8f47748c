"""The simulated next day of a VO, beside the priority of a group."""

import re
from http import HTTPStatus

import pytest

from taskqueues.services.priorities import recalculate
from tests.factories import make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group

pytestmark = pytest.mark.django_db


def run_jobs(vo: VO, *groups: Group) -> None:
    """Let each group have jobs that wait, and the VO pilots that run."""
    for group in groups:
        owner = make_user(groups=[group])
        for _ in range(30):
            make_job(owner=owner, group=group)
    queue = make_queue(ce=make_ce(site=make_site(vos=[vo])))
    for _ in range(4):
        make_pilot(vo=vo, queue=queue)
    recalculate()


def parts(page: str) -> list[list[tuple[int, int]]]:
    """Return for each hour the percents of each group, as it is and with the other priority."""
    rows = re.findall(r'<th scope="row">\d+ h</th>(.*?)</tr>', page, re.DOTALL)
    cells = [re.findall(r"<td>(\d+)(?:\.\d+)? % → (\d+)(?:\.\d+)? %</td>", row) for row in rows]
    return [[(int(now), int(then)) for now, then in row] for row in cells]


def test_a_greater_priority_gets_more_of_each_simulated_hour(client_of: ClientOf, vo: VO, group: Group) -> None:
    run_jobs(vo, group, make_group(vo=vo, priority=group.priority))
    manager = client_of(make_user(manages=[vo]))
    page = manager.get(f"/shares/{group.pk}/next-day/", {"priority": str(9 * group.priority)})
    assert page.status_code == HTTPStatus.OK
    text = page.content.decode()
    hours = parts(text)
    assert len(hours) == 24
    first_hours = hours[:8]
    assert sum(then for (_, then), _ in first_hours) > sum(now for (now, _), _ in first_hours)
    assert "4 pilots, 2 task queues with the jobs that wait now" in text


def test_the_day_is_simulated_as_it_is_where_no_other_priority_is_typed(
    client_of: ClientOf, vo: VO, group: Group
) -> None:
    manager = client_of(make_user(manages=[vo]))
    for typed in ("", "many", "-1", "nan"):
        page = manager.get(f"/shares/{group.pk}/next-day/", {"priority": typed})
        assert page.status_code == HTTPStatus.OK
        assert "→" not in page.content.decode()


def test_where_nothing_can_be_simulated_one_sentence_says_why(client_of: ClientOf, vo: VO, group: Group) -> None:
    manager = client_of(make_user(manages=[vo]))
    page = manager.get(f"/shares/{group.pk}/next-day/", {"priority": "7"}).content.decode()
    assert page.strip() == "<p>No job waits whose group has a share: there is nothing to simulate.</p>"
    make_job(owner=make_user(groups=[group]), group=group)
    recalculate()
    page = manager.get(f"/shares/{group.pk}/next-day/", {"priority": "7"}).content.decode()
    assert page.strip() == "<p>No pilot of the VO runs: there is nothing to simulate.</p>"


def test_others_see_no_simulation(client_of: ClientOf, vo: VO, group: Group) -> None:
    member = client_of(make_user(groups=[group]))
    assert member.get(f"/shares/{group.pk}/next-day/").status_code == HTTPStatus.NOT_FOUND
