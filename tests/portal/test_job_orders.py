"""Orders of the list of jobs: the headings and the menu that sort it, and its pages in each order."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from tests.factories import NOW, make_job, make_site
from tests.portal.test_job_list import ids_in, q_of, search
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries.sorted_jobs import SORTED_BY
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation import job_orders
from wms.portal.presentation.columns import COLUMNS

pytestmark = pytest.mark.django_db


def headings_in(response: Any) -> dict[str, Any]:
    return {heading.label: heading for heading in response.context["headings"]}


def test_a_heading_sorts_the_list_and_then_reverses_it(portal: Client, alice: User, group: Group) -> None:
    names = ["b", "c", "a"]
    jobs = {name: make_job(owner=alice, group=group, job_name=name, status=JobStatus.DONE).pk for name in names}
    listed = search(portal, "status:done", by="reason")
    assert headings_in(listed)["Submitted"].sorted == "descending"
    by_name = portal.get(f"/jobs/?{headings_in(listed)['Name'].query}")
    assert ids_in(by_name) == [jobs["a"], jobs["b"], jobs["c"]]
    assert by_name.context["side"].title == "Reason"
    assert q_of(f"?{headings_in(listed)['Name'].query}") == "status:Done"
    page = by_name.content.decode()
    assert page.count("aria-sort=") == 1
    assert '<th aria-sort="ascending"><a href="' in page
    turned = portal.get(f"/jobs/?{headings_in(by_name)['Name'].query}")
    assert ids_in(turned) == [jobs["c"], jobs["b"], jobs["a"]]
    assert headings_in(turned)["Name"].sorted == "descending"
    # Back to the order by id.
    newest = portal.get(f"/jobs/?{headings_in(turned)['Submitted'].query}")
    assert ids_in(newest) == [jobs["a"], jobs["c"], jobs["b"]]
    assert ids_in(portal.get(f"/jobs/?{headings_in(newest)['Job'].query}")) == [jobs["b"], jobs["c"], jobs["a"]]


def test_the_menu_has_the_orders_of_all_columns_that_are_shown(portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group)
    portal.cookies["job_columns"] = "cpu-time"
    orders = portal.get("/jobs/", {"order": "-ended"}).context["orders"]
    assert [order.label for order in orders] == [
        "Newest first", "Oldest first", "Status, A to Z", "Status, Z to A", "CPU time, shortest first",
        "CPU time, longest first", "Ended, earliest first", "Ended, latest first",
    ]  # fmt: skip
    assert [order.label for order in orders if order.is_current] == ["Ended, latest first"]


def test_pages_of_a_sorted_list_go_forward_and_back(
    portal: Client, alice: User, group: Group, subtests: pytest.Subtests
) -> None:
    site = make_site()
    for number in range(2 * ROWS_PER_PAGE + 3):
        is_done = number % 3 > 0
        job = make_job(
            owner=alice,
            group=group,
            status=JobStatus.DONE if is_done else JobStatus.FAILED,
            site=site if is_done else None,
            job_name=f"job {number % 7}",
        )
        Job.objects.filter(pk=job.pk).update(
            status_changed_at=NOW + timedelta(seconds=number % 10, microseconds=number % 2),
            cpu_s=number % 5 / 3 if is_done else None,
            exit_code=number % 4 if is_done else None,
        )
    jobs = sorted(Job.objects.values_list("pk", flat=True))
    for order in ("changed", "-changed", "-cpu-time", "name", "site", "-exit-code", "status"):
        with subtests.test(order):
            _read_forward_and_back(portal, order, jobs)


def _read_forward_and_back(portal: Client, order: str, jobs: list[int]) -> None:
    pages, address = [], f"/jobs/?order={order}"
    while address:
        response = portal.get(address)
        pages.append(ids_in(response))
        further = response.context["pager"].next
        address = f"/jobs/?{further}" if further else ""
    assert [len(page) for page in pages] == [ROWS_PER_PAGE, ROWS_PER_PAGE, 3]
    assert sorted(pk for page in pages for pk in page) == jobs
    for page in reversed(pages[:-1]):
        response = portal.get(f"/jobs/?{response.context['pager'].previous}")
        assert ids_in(response) == page
    assert response.context["pager"].previous == ""


def test_a_page_of_a_sorted_list_stays_when_its_edge_changes_or_leaves(
    portal: Client, alice: User, group: Group
) -> None:
    jobs = [make_job(owner=alice, group=group, job_name=f"{number:03}").pk for number in range(2 * ROWS_PER_PAGE)]
    second = search(portal, "status:waiting", order="name").context["pager"].next
    Job.objects.filter(pk=jobs[ROWS_PER_PAGE - 1]).update(job_name="999", status=JobStatus.HELD)
    assert ids_in(portal.get(f"/jobs/?{second}")) == jobs[ROWS_PER_PAGE:]


@pytest.mark.parametrize("place", ["x", "1:x", "1:2026-01-01", "1:2026-01-01T00:00:00", "-1", "9" * 19, ""])
def test_an_invalid_position_shows_the_first_page(place: str, portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    for name in ("beyond", "upto"):
        response = portal.get("/jobs/", {"order": "-changed", name: place})
        assert ids_in(response) == [job.pk]


def test_a_long_list_is_sorted_by_id_only(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_orders, "MOST_SORTED", 2)
    jobs = [make_job(owner=alice, group=group, job_name=name).pk for name in "cba"]
    make_job(owner=alice, group=group, status=JobStatus.DONE)
    response = portal.get("/jobs/", {"order": "name", "q": "status:waiting"})
    assert ids_in(response) == jobs[::-1]
    assert "Only lists of at most 2 jobs are sorted by their columns." in response.content.decode()
    headings = headings_in(response)
    assert (headings["Name"].query, headings["Submitted"].query != "") == ("", True)
    assert [order.label for order in response.context["orders"]] == ["Newest first", "Oldest first"]
    # Once it is narrowed, the order applies.
    Job.objects.filter(pk=jobs[0]).update(status=JobStatus.HELD)
    assert ids_in(portal.get("/jobs/", {"order": "name", "q": "status:waiting"})) == [jobs[2], jobs[1]]


def test_every_order_is_that_of_a_column() -> None:
    assert SORTED_BY.keys() == {"status", *COLUMNS} - {"submitted"}
