"""The page of plots in a real browser: six charts, a picture and a file of numbers."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from tests.end_to_end.portal.test_in_a_browser import Browser, browser, log_in, people, pytestmark
from tests.factories import make_bucket
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.models import Accounting

__all__ = ["browser", "people", "pytestmark"]


@pytest.fixture
def buckets(people: None) -> None:
    """Fill the last day."""
    now = timezone.now()
    Accounting.objects.create(seen="1:1:", began_at=now - timedelta(days=2), runs=1)
    alice, group = User.objects.get(username="alice"), Group.objects.get(name="lhcb_user")
    for hour in range(24):
        begin = Width.HOUR.begin_of(now) - timedelta(hours=hour)
        for job_type in ("User", "Test"):
            make_bucket(
                owner=alice, group=group, begun_at=begin, job_type=job_type, started=hour, done=hour, failed=1,
                cpu_s=1000.0 * hour, wall_s=1200.0 * hour + 1, running=5.0 + hour, waiting=9.0, held=1.0,
            )  # fmt: skip


def test_plots_are_drawn_and_saved(live_server: LiveServer, buckets: None, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice", to="/plots/?by=type")
    canvases = page.locator("figure.chart canvas")
    canvases.nth(5).wait_for()
    assert canvases.count() == 6
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
