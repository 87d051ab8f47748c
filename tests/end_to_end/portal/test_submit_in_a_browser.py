"""The page that submits jobs in a real browser: the editor, dropped files, the panel beside the form."""

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from resources.models import Site
from tests.end_to_end.portal.test_in_a_browser import CHROMIUM, REQUIRED, Browser, browser, log_in, people
from tests.factories import make_ce, make_queue

__all__ = ("browser", "people")

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="chromium is not installed"),
]

JDL = """[
  Executable = "./run.sh";
  Arguments = "%n";
  CPUTime = 40000;
  Parameters = 30;
  InputSandbox = {"run.sh"};
]"""
CARRIED = """
    ([name, content]) => {
      const carried = new DataTransfer();
      carried.items.add(new File([content], name));
      return carried;
    }
"""


@pytest.fixture
def queues(people: None) -> None:
    """Create a queue that the jobs fit and one that is too short."""
    make_queue(ce=make_ce(site=Site.objects.get(name="LCG.CERN.ch")))
    make_queue(ce=make_ce(site=Site.objects.get(name="LCG.RAL.uk")), cpu_time_s=5000)


def drop(page: Page, where: str, *, name: str, content: str) -> None:
    """Drop a file there, as the browser does for one that is dragged from a file manager."""
    carried = page.evaluate_handle(CARRIED, [name, content])
    for event in ("dragover", "drop"):
        page.locator(where).dispatch_event(event, {"dataTransfer": carried})


def write(page: Page, text: str) -> None:
    """Replace the text in the editor, as by keys and paste."""
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_alice_drops_a_file_on_a_jdl_sees_where_it_fits_and_submits(
    live_server: LiveServer, queues: None, browser: Browser
) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice", to="/jobs/submit/")
    page.get_by_role("button", name="JDL").click()
    panel = page.locator("#check")
    write(page, JDL)
    expect(panel).to_contain_text('No file "run.sh" goes along with this form.')
    drop(page, ".editor .cm-content", name="run.sh", content="echo hi\n")
    expect(panel).to_contain_text("All jobs would fail when they start.")
    drop(page, ".editor .cm-content", name="run.sh", content="#!/bin/sh\necho hi\n")
    expect(panel).to_contain_text("Fits 1 of 2 queues, at LCG.CERN.ch.")
    expect(panel).to_contain_text("CPU time excludes LCG.RAL.uk")
    expect(panel).to_contain_text('30 jobs: first "00", last "29".')
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("status").first).to_have_text("30 jobs submitted.")
    assert browser.complaints == []


def test_the_editor_puts_the_cursor_at_the_error(live_server: LiveServer, queues: None, browser: Browser) -> None:
    page = browser.page
    log_in(browser, live_server, username="alice", to="/jobs/submit/jdl/")
    write(page, '[\n  Executable = "x";\n  Executble = 1;\n]')
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".errorlist").first).to_contain_text("Line 3, column 3")
    expect(page.locator(".editor .cm-activeLine")).to_have_text("  Executble = 1;")
    # What is typed goes to the place of the error, and replaces what is selected there, over several lines too.
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.type("CPUTime = 500; ]")
    page.get_by_role("button", name="JSON").click()
    expect(page.locator(".editor .cm-content")).to_contain_text('"cpu_time_s": 500')
    # The browser complains of the refusal itself.
    assert [complaint for complaint in browser.complaints if "400 (Bad Request)" not in complaint] == []
