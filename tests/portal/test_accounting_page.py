"""The page of accounting and its file."""

import csv
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from resources.models import Site
from tests.factories import make_bucket, make_group, make_site, make_user
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.models import Accounting

pytestmark = pytest.mark.django_db

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
NUMBERS: dict[str, Any] = {"started": 1500, "done": 3, "failed": 1, "cpu_s": 1800.0, "wall_s": 7200.0}
YEAR = "since=2026-01-01&until=2026-12-31"


@pytest.fixture(autouse=True)
def _begun(vo: VO) -> None:
    Accounting.objects.create(seen="1:1:", began_at=JANUARY - timedelta(days=400), runs=7)


def used(owner: User, group: Group, **properties: Any) -> None:
    make_bucket(**{"owner": owner, "group": group, "begun_at": JANUARY, "width": Width.DAY, **NUMBERS, **properties})


def labels(client: Client, query: str) -> list[list[str]]:
    return [list(row.labels) for row in client.get(f"/accounting/?{query}").context["report"].rows]


def test_the_page_has_a_row_for_each_value_and_a_total(portal: Client, alice: User, group: Group) -> None:
    used(alice, group)
    used(alice, group, begun_at=JANUARY + timedelta(days=30), failed=0)
    response = portal.get(f"/accounting/?by=group&and_by=month&{YEAR}")
    report = response.context["report"]
    assert report.headings == ["Group", "Month"]
    assert [row.labels for row in report.rows] == [["lhcb_user", "2026-01"], ["lhcb_user", "2026-02"]]
    assert report.rows[0].numbers == ["1,500", "3", "1", "0", "75.0 %", "0.5", "2.0", "25.0 %"]
    assert report.total == ["3,000", "6", "1", "0", "85.7 %", "1.0", "4.0", "25.0 %"]
    page = response.content.decode()
    assert '<span class="time">2026-01-10</span> to <span class="time">20' in page
    assert '<a class="button" href="/accounting/table.csv?by=group&amp;and_by=month&amp;since=2026-01-01' in page


def test_the_table_is_narrowed_and_an_invalid_choice_is_named_and_ignored(
    portal: Client, alice: User, group: Group, vo: VO
) -> None:
    used(alice, group, site=Site.objects.get(name="LCG.CERN.ch"))
    used(alice, make_group(name="lhcb_prod", vo=vo), job_type="MC")
    used(make_user(username="bob"), make_group(name="atlas"))
    assert labels(portal, f"{YEAR}&vo=lhcb") == [["lhcb_prod"], ["lhcb_user"]]
    assert labels(portal, f"{YEAR}&site=LCG.CERN.ch&by=site&and_by=site") == [["LCG.CERN.ch"]]
    assert labels(portal, f"{YEAR}&type=MC&user=alice&by=country&and_by=group") == [["–", "lhcb_prod"]]
    page = portal.get("/accounting/?by=colour&vo=atlas&since=2026-02-01&until=2026-01-01").content.decode()
    assert page.count("Select a valid choice.") == 2
    assert "The last day is before the first." in page


def test_the_file_has_the_rows_and_no_formula(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(alice, group, job_type='=HYPERLINK("http://x")', cpu_s=0.0, wall_s=9000.0)
    used(alice, group, job_type="User")
    response = portal.get(f"/accounting/table.csv?by=type&and_by=country&{YEAR}")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith('attachment; filename="accounting-2026-01-10-to-2026-')
    first, second = csv.DictReader(StringIO(response.content.decode()))
    assert (first["job_type"], second["job_type"]) == ('\'=HYPERLINK("http://x")', "User")
    assert second == {
        "job_type": "User", "country": "–", "started": "1500", "done": "3", "failed": "1", "killed": "0",
        "success": "0.75", "cpu_hours": "0.5", "core_hours": "2.0", "efficiency": "0.25",
    }  # fmt: skip
    monkeypatch.setattr("wms.portal.views.accounting.MOST_ROWS", 1)
    _, rest = csv.reader(portal.get(f"/accounting/table.csv?by=type&{YEAR}").content.decode().splitlines()[1:])
    assert rest[:3] == ["1 others", "1500", "3"]


def test_a_page_of_too_many_rows_sums_up_the_others(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        used(alice, group, job_type=f"<b>{number}", wall_s=3600.0 * number)
    monkeypatch.setattr("wms.portal.views.accounting._ROWS_OF_PAGE", 2)
    assert labels(portal, f"{YEAR}&by=type") == [["<b>2"], ["<b>3"], ["2 others"]]
    page = portal.get(f"/accounting/?{YEAR}&by=type").content.decode()
    assert "&lt;b&gt;2" in page
    assert "<b>2" not in page


def test_without_numbers_the_page_says_why(portal: Client, alice: User, group: Group) -> None:
    page = portal.get("/accounting/").content.decode()
    assert "No job that you may see started or ended in this time." in page
    assert "Show this year" in portal.get("/accounting/?by=user").content.decode()
    used(alice, group)
    Accounting.objects.update(began_at=JANUARY + timedelta(hours=2))
    assert "Accounting began <time" in portal.get(f"/accounting/?{YEAR}").content.decode()
    Accounting.objects.all().delete()
    assert "Accounting has not begun" in portal.get("/accounting/?until=2025-01-01").content.decode()


def test_thirty_rows_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert portal.get(f"/accounting/?by=site&and_by=country&{YEAR}").status_code == 200
        return len(captured)

    used(alice, group, site=make_site())
    one = queries()
    for _ in range(30):
        used(alice, group, site=make_site())
    assert queries() == one
