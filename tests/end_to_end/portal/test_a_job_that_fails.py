"""A physicist's day in a real browser, beside a real pilot: submit, watch it run, read why it failed, try again."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site
from resources.services.site_tokens import issue_site_token
from tests.agent.running import RunningAgent
from tests.end_to_end.portal.test_in_a_browser import Browser, browser, log_in, people, pytestmark
from tests.end_to_end.portal.test_submit_in_a_browser import drop
from tests.factories import make_ce, make_queue
from tests.pace import within

__all__ = ["browser", "people", "pytestmark"]

SCRIPT = """#!/bin/sh
for step in 1 2 3 4 5 6; do echo "step $step of 6"; sleep 1; done
echo "grid.dat is not there" >&2
exit 2
"""
#: Seconds in which a pilot starts a job.
WITHIN_S = 30


@pytest.fixture
def start_pilot(
    people: None, live_server: LiveServer, settings: Settings, tmp_path: Path
) -> Callable[[str], RunningAgent]:
    """Return a function that starts a pilot for one job, with frequent heartbeats."""
    settings.WMS_HEARTBEAT_S = settings.WMS_MATCH_RETRY_AFTER_S = 1
    site = Site.objects.get(name="LCG.CERN.ch")
    make_queue(name="grid", ce=make_ce(name="ce01", site=site))
    secret = issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid", "--max-jobs", "1"]

    def start(stamp: str) -> RunningAgent:
        directory = tmp_path / stamp
        directory.mkdir()
        return RunningAgent(live_server.url, directory, *place, "--stamp", stamp, token=secret, packed=True)

    return start


@pytest.fixture
def patient(start_pilot: Callable[[str], RunningAgent], browser: Browser) -> Iterator[Browser]:
    """Return the browser, which waits for what a page is to show as long as a pilot may take."""
    within_ms = 1000 * within(WITHIN_S)
    browser.page.set_default_timeout(within_ms)
    expect.set_options(timeout=within_ms)
    yield browser
    expect.set_options(timeout=None)  # as by default


def test_a_user_sees_why_a_job_failed_and_retries_it(
    live_server: LiveServer, start_pilot: Callable[[str], RunningAgent], patient: Browser
) -> None:
    page = patient.page
    log_in(patient, live_server, username="alice", to="/jobs/submit/")
    drop(page, "main", name="run.sh", content=SCRIPT)
    page.get_by_label("Executable").fill("./run.sh")
    page.get_by_label("Job name").fill("scan-1")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("status").first).to_have_text("1 job submitted.")
    expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    main = page.locator("main")
    expect(main).to_contain_text("scan-1")

    with start_pilot("first"):
        # The open list shows it without a reload.
        expect(page.locator("tbody .badge.running")).to_have_count(1)
        page.locator("tbody a").first.click()
        expect(page.get_by_role("log")).to_contain_text("step 3 of 6")
        expect(page.locator(".state")).to_contain_text("Failed")
        page.locator(".tabs").get_by_role("link", name="Errors").click()
        expect(main).to_contain_text("grid.dat is not there")

    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.get_by_role("link", name="Failures grouped").click()
    expect(main).to_contain_text("Exited with code")
    expect(main).to_contain_text("grid.dat is not there")
    page.get_by_role("button", name="Reschedule all").click()
    page.get_by_role("button", name="Reschedule 1 job").click()
    expect(page.get_by_role("status")).to_have_text("1 job rescheduled.")

    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.locator("tbody a").first.click()
    with start_pilot("second") as agent:
        expect(page.get_by_role("log")).to_contain_text("step 2 of 6")
        expect(main).to_contain_text("Attempt 2")
        expect(page.locator(".state")).to_contain_text("Failed")
        assert agent.wait() == 0, agent.log
    assert patient.complaints == []
