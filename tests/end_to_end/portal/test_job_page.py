"""The page of a running job in a real browser: output that arrives, and charts."""

import json
import urllib.request

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from matching.models import Match
from tests.end_to_end.portal.test_in_a_browser import Browser, browser, log_in, people, pytestmark
from tests.factories import make_job, make_match, make_pilot, make_pilot_token, make_samples
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus

__all__ = ["browser", "people", "pytestmark"]


@pytest.fixture
def lease(people: None) -> Match:
    """Return the lease of a running job of Alice, with some samples of its usage."""
    pilot = make_pilot(vo=VO.objects.get())
    job = make_job(
        owner=User.objects.get(username="alice"),
        group=Group.objects.get(name="lhcb_user"),
        status=JobStatus.RUNNING,
        pilot_id=pilot.pk,
        job_name="a" * 200,
        memory_mb=2000,
        std_output_tail="line 0\n" * 200,
    )
    make_samples(job, *((60 * number, 50 * number, 10 * number, 5) for number in range(2, 24)))
    return make_match(job=job, pilot=pilot, leased_at=timezone.now())


@pytest.fixture
def pilot_token(lease: Match) -> str:
    return make_pilot_token(lease.pilot)


def is_as_wide_as_the_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_output_arrives_on_the_open_page_and_usage_is_drawn(
    live_server: LiveServer, lease: Match, pilot_token: str, browser: Browser
) -> None:
    page = browser.page
    page.clock.install()
    log_in(browser, live_server, username="alice")
    page.goto(f"{live_server.url}/jobs/{lease.job_id}/")
    page.get_by_text("Kill…").click()
    address = f"{live_server.url}/api/v1/matches/{lease.pk}/heartbeat/"
    headers = {"Authorization": f"Bearer {pilot_token}", "Content-Type": "application/json"}
    body = json.dumps({"cpu_s": 5.0, "wall_s": 6.0, "std_output": "step 50 of <b>60</b>\n"}).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)):
        pass
    page.clock.run_for(5_000)
    page.get_by_role("log").get_by_text("step 50 of <b>60</b>").wait_for()
    # The question stays open.
    expect(page.get_by_role("button", name="Kill job")).to_be_visible()

    page.get_by_role("link", name="Resources").click()
    canvases = page.locator("figure.chart canvas")
    canvases.nth(1).wait_for()
    expect(canvases).to_have_count(2)
    page.get_by_text("The numbers").first.click()
    expect(page.get_by_role("cell", name="2 min", exact=True).first).to_be_visible()
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    canvases.nth(1).wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    for tab in ("output", "errors", "files", "why", "resources", "description", "history", "pilot"):
        page.goto(f"{live_server.url}/jobs/{lease.job_id}/?tab={tab}")
        assert is_as_wide_as_the_window(page), tab
    assert browser.complaints == []
