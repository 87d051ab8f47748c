"""The page of plots and the file with its numbers."""

import csv
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.factories import make_bucket, make_group, make_site, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.models import Accounting
from wms.portal.forms.plots import PlotForm

pytestmark = pytest.mark.django_db

NUMBERS: dict[str, Any] = {
    "started": 4,
    "done": 3,
    "failed": 1,
    "cpu_s": 1800.0,
    "wall_s": 7200.0,
    "running": 2.0,
    "waiting": 5.0,
}


def this_hour() -> datetime:
    return Width.HOUR.begin_of(timezone.now())


@pytest.fixture(autouse=True)
def _begun(vo: VO) -> None:
    Accounting.objects.create(seen="1:1:", began_at=timezone.now() - timedelta(days=400), runs=7)


def charts_in(response: Any) -> dict[str, Any]:
    """Return {id of the chart: its data}."""
    return {chart.id: json.loads(chart.data) for chart in response.context["plots"].charts}


def test_six_plots_and_a_table_show_the_accounting(portal: Client, alice: User, group: Group) -> None:
    make_bucket(owner=alice, group=group, begun_at=this_hour(), site=make_site(name="RAL"), **NUMBERS)
    make_bucket(owner=alice, group=group, begun_at=this_hour(), held=1.0, waiting_unmatched=3.0)
    response = portal.get("/plots/")
    charts = charts_in(response)
    assert list(charts) == [f"plot-{name}" for name in ("running", "waiting", "rates", "success", "efficiency", "wall")]
    assert all(len(chart["at"]) == 25 for chart in charts.values())
    last = {
        name: {series["label"]: series["values"][-1] for series in chart["series"]} for name, chart in charts.items()
    }
    assert last == {
        "plot-running": {"RAL": 2},
        "plot-waiting": {"In a task queue": 5, "Fits no queue": 3, "Held": 1},
        "plot-rates": {"Starts": 4, "Ends": 4},
        "plot-success": {"Done": 3, "Failed": 1},
        "plot-efficiency": {"RAL": 25},
        "plot-wall": {"RAL": 2},
    }
    # An hour without a sample is not known.
    assert charts["plot-running"]["series"][0]["values"][0] is None
    (row,) = response.context["plots"].rows
    assert (row.label, row.success, row.efficiency, row.wall_hours) == ("RAL", "75.0 %", "25.0 %", 2)
    page = response.content.decode()
    assert "chart.js" in page
    assert page.count("The numbers") == 6


def test_missing_accounting_is_unknown_and_no_events_are_0(portal: Client, alice: User, group: Group) -> None:
    for hours in (0, 2):
        make_bucket(owner=alice, group=group, begun_at=this_hour() - timedelta(hours=hours), **NUMBERS)
    # Of others only.
    make_bucket(owner=make_user(), group=make_group(), begun_at=this_hour() - timedelta(hours=1), **NUMBERS)
    charts = charts_in(portal.get("/plots/"))
    values = {name: chart["series"][0]["values"][-4:] for name, chart in charts.items()}
    assert values == {
        "plot-running": [None, 2, 0, 2],
        "plot-waiting": [None, 5, 0, 5],
        "plot-rates": [None, 4, 0, 4],
        "plot-success": [None, 3, 0, 3],
        "plot-efficiency": [None, 25, None, 25],
        "plot-wall": [None, 2, 0, 2],
    }


def test_buckets_of_invisible_jobs_are_not_shown(
    portal: Client, client_of: ClientOf, alice: User, group: Group
) -> None:
    bob = make_user(username="bob", groups=[group])
    manager = make_user(manages=[group.vo])
    make_bucket(owner=alice, group=group, begun_at=this_hour(), **NUMBERS)
    make_bucket(owner=bob, group=group, begun_at=this_hour(), **NUMBERS)

    def users(client: Client) -> set[str]:
        return {row.label for row in client.get("/plots/?by=user").context["plots"].rows}

    assert users(portal) == {"alice"}
    assert users(client_of(manager)) == {"alice", "bob"}
    assert users(client_of(make_user())) == set()
    assert "bob" not in portal.get("/plots/numbers.csv?by=user").content.decode()


@pytest.mark.parametrize(
    ("period", "width", "number"),
    [("day", Width.HOUR, 25), ("week", Width.HOUR, 169), ("month", Width.DAY, 31), ("year", Width.WEEK, 53)],
)
def test_a_longer_time_has_longer_buckets(
    period: str, width: Width, number: int, portal: Client, alice: User, group: Group
) -> None:
    make_bucket(owner=alice, group=group, width=width, begun_at=width.begin_of(timezone.now()), **NUMBERS)
    charts = charts_in(portal.get(f"/plots/?period={period}"))
    assert len(charts["plot-wall"]["at"]) == number
    assert charts["plot-wall"]["series"][0]["values"][-1] == 2


@pytest.mark.parametrize(
    ("since", "until", "width", "number"),
    [
        ("2026-06-01", "2026-06-02", Width.HOUR, 48),
        ("2026-06-01", "", Width.HOUR, 24 + 24 + 13),
        ("2026-05-01", "2026-05-02", Width.DAY, 2),  # hours are not kept as long
        ("2026-05-01", "2026-05-31", Width.DAY, 31),
        ("2025-01-01", "2026-05-31", Width.WEEK, 74),
        ("1970-01-01", "", Width.WEEK, 158),
    ],
)
def test_a_span_between_two_days_has_buckets_that_are_kept_and_not_too_many(
    since: str, until: str, width: Width, number: int, alice: User
) -> None:
    now = datetime(2026, 6, 3, 12, 30, tzinfo=UTC)
    span = PlotForm({"since": since, "until": until}, user=alice).choice(now=now).span
    assert (span.width, len(span.begins)) == (width, number)


def test_an_invalid_choice_is_named_and_ignored(portal: Client, alice: User, group: Group) -> None:
    make_bucket(owner=alice, group=group, begun_at=this_hour(), **NUMBERS)
    days = [f"{timezone.now() - timedelta(days=days):%Y-%m-%d}" for days in (1, 2)]
    response = portal.get(f"/plots/?since={days[0]}&until={days[1]}&by=colour&group=nobody&period=eon")
    page = response.content.decode()
    assert "The last day is before the first." in page
    assert page.count("Select a valid choice.") == 3
    assert len(charts_in(response)["plot-wall"]["at"]) > 1


def test_plots_are_narrowed_by_group_and_site(portal: Client, alice: User, group: Group, vo: VO) -> None:
    other = make_group(name="lhcb_prod", vo=vo)
    cern, pic = make_site(name="CERN"), make_site(name="PIC")
    for of_group, site in ((group, cern), (group, pic), (other, cern)):
        make_bucket(owner=alice, group=of_group, site=site, begun_at=this_hour(), **NUMBERS)

    def starts(query: str) -> dict[str, int]:
        return {row.label: row.started for row in portal.get(f"/plots/?{query}").context["plots"].rows}

    assert starts("") == {"CERN": 8, "PIC": 4}
    assert starts("group=lhcb_prod") == {"CERN": 4}
    assert starts("site=CERN&by=group") == {"lhcb_user": 4, "lhcb_prod": 4}
    assert starts("by=type") == {"User": 12}


def test_more_than_twelve_series_are_summed_up(portal: Client, alice: User, group: Group) -> None:
    for number in range(20):
        make_bucket(
            owner=alice,
            group=group,
            begun_at=this_hour(),
            job_type=f"T{number:02}",
            done=1,
            wall_s=3600.0 * (1 + number),
        )
    response = portal.get("/plots/?by=type")
    series = charts_in(response)["plot-wall"]["series"]
    assert [each["label"] for each in series] == [*(f"T{number:02}" for number in range(19, 7, -1)), "others"]
    assert len({each["color"] for each in series}) == 13
    assert response.context["plots"].rows[-1].done == 8


def test_the_file_has_a_line_for_each_bucket_and_series_and_no_formula(
    portal: Client, alice: User, group: Group
) -> None:
    begin = this_hour()
    make_bucket(owner=alice, group=group, begun_at=begin, job_type='=HYPERLINK("http://x")', **NUMBERS)
    make_bucket(owner=alice, group=group, begun_at=begin - timedelta(hours=1), job_type="User", started=1)
    response = portal.get("/plots/numbers.csv?by=type")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith('attachment; filename="jobs-since-')
    first, second = csv.DictReader(StringIO(response.content.decode()))
    assert (first["begin"], first["job_type"]) == ((begin - timedelta(hours=1)).isoformat(), "User")
    assert (first["started"], first["running"]) == ("1", "0.0")
    assert second["job_type"] == '\'=HYPERLINK("http://x")'
    assert (second["done"], second["wall_s"], second["waiting"]) == ("3", "7200.0", "5.0")


def test_user_texts_are_escaped(portal: Client, alice: User, group: Group) -> None:
    make_bucket(owner=alice, group=group, begun_at=this_hour(), job_type="<script>alert(1)</script>", **NUMBERS)
    page = portal.get("/plots/?by=type").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_without_jobs_the_page_says_what_to_do(portal: Client) -> None:
    page = portal.get("/plots/").content.decode()
    assert "No job that you may see waited, ran or ended" in page
    assert "Submit jobs" in page
    assert "data-chart" not in page
    assert "Show the last day of all jobs" in portal.get("/plots/?by=user").content.decode()


def test_the_page_says_since_when_there_are_numbers(portal: Client, alice: User, group: Group) -> None:
    Accounting.objects.update(began_at=timezone.now() - timedelta(hours=2))
    make_bucket(owner=alice, group=group, begun_at=this_hour(), **NUMBERS)
    assert "Accounting began <time" in portal.get("/plots/").content.decode()
    Accounting.objects.all().delete()
    assert "Accounting began" not in portal.get("/plots/").content.decode()


def test_the_page_says_that_accounting_has_not_begun(portal: Client) -> None:
    Accounting.objects.all().delete()
    assert "Accounting has not begun" in portal.get("/plots/").content.decode()


def test_the_page_changes_with_each_run(portal: Client) -> None:
    etag = portal.get("/plots/")["ETag"]
    assert portal.get("/plots/", headers={"If-None-Match": etag}).status_code == 304
    Accounting.objects.update(runs=8)
    assert portal.get("/plots/", headers={"If-None-Match": etag}).status_code == 200


def test_thirty_series_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert portal.get("/plots/?period=week").status_code == 200
        return len(captured)

    def new_bucket(number: int) -> None:
        make_bucket(
            owner=alice, group=group, begun_at=this_hour() - timedelta(hours=number), site=make_site(), **NUMBERS
        )

    new_bucket(0)
    one = queries()
    for number in range(1, 30):
        new_bucket(number)
    assert queries() == one
    # Of which two are the savepoint of the query of sums; four of banner, scope and menu are memoised outside of tests.
    assert one <= 21
