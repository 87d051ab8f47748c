"""Thousands of jobs killed from the list in a real browser: by mouse, and by keyboard alone."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.utils import timezone
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.factories import make_group, make_site, make_user, make_vo, submit
from tests.pace import within
from wms.jobs.domain.request import parse_submission

CHROMIUM = shutil.which("chromium")
#: CI sets it, so that a browser that was not installed is no reason to be green.
REQUIRED = "WMS_TESTS_REQUIRE_BROWSER" in os.environ
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
PASSWORD = "correct horse battery staple"
JOBS = 5000
MOST_TABS = 40

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="chromium is not installed"),
]


@dataclass(frozen=True)
class Browser:
    """One page, with the messages of its console."""

    page: Page
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def waiting_jobs(transactional_db: None) -> None:
    """Submit Alice's jobs before the browser starts: beside its event loop Django refuses to use the database."""
    vo = make_vo(name="lhcb")
    make_site(name="LCG.CERN.ch", vos=[vo])
    alice = make_user(username="alice", password=PASSWORD, groups=[make_group(name="lhcb_user", vo=vo)])
    body = {"executable": "run.sh", "job_name": "scan-%n", "parameters": {"count": JOBS, "start": 1, "step": 1}}
    submit(parse_submission(body), owner=alice, now=timezone.now())


@pytest.fixture
def browser(waiting_jobs: None, live_server: LiveServer) -> Iterator[Browser]:
    """Return a browser in which Alice is logged in, at the list of her jobs."""
    assert CHROMIUM, "chromium is not installed, and WMS_TESTS_REQUIRE_BROWSER is set"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * within(30))
        opened = Browser(page=page)

        def note(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:  # a breach of the content security policy is one
                opened.complaints.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.goto(f"{live_server.url}/jobs/")
        page.get_by_label("Username").fill("alice")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("Password").press("Enter")
        page.get_by_role("heading", name="My jobs").wait_for()
        yield opened
        chromium.close()


def test_five_thousand_jobs_are_killed_by_mouse(browser: Browser) -> None:
    page = browser.page
    page.get_by_role("checkbox", name="Select all jobs of this page").click()
    expect(page.locator("#selected")).to_have_text("50 selected:")
    assert page.get_by_role("button", name="Kill 50").is_enabled()
    assert page.get_by_role("button", name="Release").is_disabled()
    page.get_by_label("all 5,000 that match").click()
    page.get_by_role("button", name="Kill 5,000").click()
    page.get_by_role("heading", name="Kill 5,000 jobs?").wait_for()
    page.get_by_role("button", name="Kill 5,000 jobs").click()
    expect(page.get_by_role("status")).to_have_text("5,000 jobs killed.")
    expect(page.locator("#chip-Killed")).to_contain_text("5,000")
    assert browser.complaints == []


def test_five_thousand_jobs_are_killed_by_keyboard_alone(browser: Browser) -> None:
    page = browser.page
    press = page.keyboard.press
    press("/")
    page.keyboard.type("scan status:waiting")
    press("Enter")
    page.wait_for_url("**q=scan*")
    press("j")
    press("x")
    expect(page.locator("#selected")).to_have_text("1 selected:")
    for _ in range(MOST_TABS):
        press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Skip the rows, to the actions":
            break
    press("Enter")
    press("Tab")
    press("Space")
    expect(page.locator("#selected")).to_have_text("All that match:")
    press("Tab")
    press("Enter")
    page.get_by_role("heading", name="Kill 5,000 jobs?").wait_for()
    press("Tab")
    press("Enter")
    expect(page.get_by_role("status")).to_have_text("5,000 jobs killed.")
    expect(page.locator("main")).to_contain_text("No job fits this query.")
    assert browser.complaints == []
