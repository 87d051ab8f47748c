"""The page of plots in a real browser: six charts, a picture and a file of numbers."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_in_a_browser import Browser, browser, log_in, people, pytestmark
from tests.factories import make_bucket
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.models import Accounting

__all__ = ["browser", "people", "pytestmark"]


@pytest.fixture
def buckets(people: None) -> None:
    """Fill the last day but for five hours, in which the server was down."""
    now = timezone.now()
    Accounting.objects.create(seen="1:1:", began_at=now - timedelta(days=2), runs=1)
    alice, group = User.objects.get(username="alice"), Group.objects.get(name="lhcb_user")
    for hour in (*range(9), *range(14, 24)):
        begin = Width.HOUR.begin_of(now) - timedelta(hours=hour)
        for job_type in ("User", "Test"):
            make_bucket(
                owner=alice, group=group, begun_at=begin, job_type=job_type, started=hour, done=hour, failed=1,
                cpu_s=1000.0 * hour, wall_s=1200.0 * hour + 1, running=5.0 + hour, waiting=9.0, held=1.0,
            )  # fmt: skip


#: The widest part of a chart, between its first and last point, in which nothing is drawn just above its base; 1: all.
_WIDEST_GAP: Final = """
    (canvas) => {
      const area = canvas.parentElement.querySelector(".u-over").getBoundingClientRect();
      const [outer, ratio] = [canvas.getBoundingClientRect(), canvas.width / canvas.clientWidth];
      const [left, width] = [Math.round((area.left - outer.left) * ratio), Math.round(area.width * ratio)];
      const row = Math.round((area.bottom - outer.top - 4) * ratio);
      const { data } = canvas.getContext("2d").getImageData(left, row, width, 1);
      const drawn = Array.from({ length: width }, (_, x) => x).filter((x) => data[4 * x + 3] > 200);
      return Math.max(...drawn.slice(1).map((x, i) => x - drawn[i])) / width;
    }
"""


def test_plots_are_drawn_and_saved(live_server: LiveServer, buckets: None, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice", to="/plots/?by=type")
    canvases = page.locator("figure.chart canvas")
    canvases.nth(5).wait_for()
    expect(canvases).to_have_count(6)
    # From hour 8 to hour 14 of 24, with a line of the grid in it; stacked charts are filled down to their base.
    assert page.locator("#plot-waiting canvas").evaluate(_WIDEST_GAP) > 0.05
    with page.expect_download() as picture:
        page.get_by_role("button", name="Save as PNG").first.click()
    assert picture.value.suggested_filename == "plot-running.png"
    assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as numbers:
        page.get_by_role("link", name="Numbers as CSV").click()
    assert Path(numbers.value.path()).read_text().startswith("begin,job_type,started")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.complaints == []
